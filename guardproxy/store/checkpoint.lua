-- checkpoint: the newest messages of a session, for an agent that crashed. What they say (`sealed`) is opaque here.
--
-- Follows state.lua in the same script.
-- KEYS[1]  "gp:{<org>}:"
-- ARGV[1]  msgpack: the locals below, in this order. `once` is new for each call of the store, and the same when a call
--          is sent again because its answer was lost
-- ARGV[2]  for put: the bytes to keep
--
-- checkpoint:<session>   a hash: generation, sealed, at_ms, put (`once` of it), and who took it up: by, taken_ms, once
-- generation:<session>   counts on when a checkpoint is forgotten: a number stands for one checkpoint only
--
-- put: { generation }; get: { generation, sealed, at_ms } or {}; take: { 'done' }, or { 'unknown' }, { 'newer',
-- generation }, { 'taken', by }.
local act, once, session, generation, by, ttl_ms, offset = unpacked(ARGV[1])
if ttl_ms == 0 then ttl_ms = KEPT_TTL end
local key, counter = P .. 'checkpoint:' .. session, P .. 'generation:' .. session
local clock = call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000) + offset
local kept = call('HMGET', key, 'generation', 'put', 'once', 'by')

if act == 'put' then
  if kept[2] == once then return { tonumber(kept[1]) } end
  local number = call('INCR', counter)
  call('PEXPIRE', counter, math.max(ttl_ms, KEPT_TTL))
  call('DEL', key)
  call('HSET', key, 'generation', number, 'sealed', ARGV[2], 'at_ms', string.format('%.0f', now), 'put', once)
  call('PEXPIRE', key, ttl_ms)
  return { number }
elseif act == 'get' then
  return kept[1] and call('HMGET', key, 'generation', 'sealed', 'at_ms') or {}
end

if not kept[1] then return { 'unknown' } end
if tonumber(kept[1]) ~= generation then return { 'newer', tonumber(kept[1]) } end
if kept[3] and kept[3] ~= once then return { 'taken', kept[4] } end
call('HSET', key, 'by', by, 'taken_ms', string.format('%.0f', now), 'once', once)
return { 'done' }
