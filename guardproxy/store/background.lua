-- background: an answer that the provider makes in the background, from when its name is known until what it used is. Safe
-- to run twice.
--
-- Follows state.lua and account.lua in the same script.
-- KEYS[1]  "gp:{<org>}:"
-- ARGV[1]  msgpack: the locals below. `name`: a digest of the tenant and the id
--
-- later:<name>   hash. `state`: early (its turn is under way), charged (as it was held, by settle.lua), settled. `about`:
--                how it is priced, of the caller's. `sid`: whose run. While it is early: `spent`, `charge`: what it used,
--                where somebody was told before its turn was over. While it is charged: what was added to which counters
--                and whose row, and when
-- early:<token>  the name, for a turn whose worker dies. Of one that waits for a person the token is the name, too
--
-- early   { 1 }: note the name of an answer whose stream has begun
-- settle  { 1 } where it was charged: counters and row get the difference. { 2 }: its turn is under way. { 0 }: nothing is
--         owed (any more)
local act, name, token, about, spent, charge, offset = unpacked(ARGV[1])
local note = P .. 'later:' .. name
if act == 'early' then
  if call('EXISTS', note) == 0 then
    call('HSET', note, 'state', 'early', 'about', about)
    call('PEXPIRE', note, KEPT_TTL)
    call('SET', P .. 'early:' .. token, name, 'PX', KEPT_TTL)
  end
  return 1
end

local found = call('HMGET', note, 'state', 'sid', 'span', 'layout', 'keys', 'uses', 'payer', 'charge', 'at')
local state, sid, span, layout, keys, uses, payer, before, at = unpack(found, 1, 9)
if state == 'early' then
  call('HSET', note, 'spent', pack(spent), 'charge', pack(charge))
  return 2
end
if state ~= 'charged' then return 0 end
call('HSET', note, 'state', 'settled')
call('HDEL', note, 'span', 'layout', 'keys', 'uses', 'payer', 'charge', 'at')

local s = read_session(call('GET', P .. 's:' .. sid)) -- gone, once it was erased: then its tenant alone is left
local place, values, integers, nth = {}, {}, '', 0
if s then
  for i, one in ipairs({ unpacked(s.layout) }) do place[one] = i end
  integers = '<' .. string.rep('i8', #s.counters / 8)
  values = { take(integers, s.counters) }
end
keys, uses, before, span, at = unpacked(keys), unpacked(uses), unpacked(before), tonumber(span), tonumber(at)
for i, one in ipairs({ unpacked(layout) }) do
  local scope, dimension = byte(one), sub(one, 3)
  local more = (spent[dimension] or uses[i]) - uses[i]
  if scope == 119 then -- w
    nth = nth + 1
    local key = P .. 'w:' .. keys[nth]
    local was = more ~= 0 and call('HGET', key, 'u:' .. dimension) -- none: the window is long over
    if was then call('HSET', key, 'u:' .. dimension, string.format('%.0f', math.max(0, was + more))) end
  elseif s and place[one] and (scope == 115 or (scope == 112 and s.span == span)) then -- s, p
    local used = 2 * place[one] - 1
    values[used] = math.max(0, values[used] + more)
  end
end
if s then
  s.counters = put(integers, unpack(values, 1, #s.counters / 8))
  save_session(sid, s, true)
end

-- The row of the day on which it was charged: from the tokens to what is estimated.
local number = math.floor(at / 86400000)
local day = P .. 'usage:' .. string.format('%.0f', number)
if payer ~= '' and (call('HEXISTS', day, payer) == 1 or call('HLEN', day) >= ROWS) then
  local more = {}
  for i = 2, 8 do more[i] = (charge[i] or 0) - (before[i] or 0) end
  for i = 1, FIELDS do more[i] = more[i] or 0 end
  account(at, payer, more)
  local clock = call('TIME')
  local now = clock[1] * 1000 + math.floor(clock[2] / 1000) + offset
  if math.floor(now / 86400000) > number then -- its file may have been written
    call('ZADD', P .. 'corrected', now, number)
    call('PEXPIRE', P .. 'corrected', KEPT_DAYS * 24 * HOUR)
  end
end
return 1
