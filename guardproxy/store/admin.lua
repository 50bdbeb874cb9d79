-- admin: the tokens of operators, and the audit stream: what people changed. Both in one slot, so that no token is made
-- or taken back without a word in the stream.
--
-- Follows state.lua in the same script.
-- KEYS[1]  "gp:admin{admin}:", which no organisation's keys begin with
-- ARGV[1]  msgpack: the locals below, in this order. `once` is new for each call of the store, and the same when a call
--          is sent again because its answer was lost. `entry` is a flat list of names and texts for the stream
--
-- tokens   keyed hash of a token -> msgpack map of what is known of it; those that were taken back stay. No TTL
-- audit    the stream: only added to, never trimmed. No TTL
--
-- A token is live while nobody took it back and its time is not over. Answers: create { 'done', token }, { 'owned',
-- token }, { 'named', token }, { 'full' }; revoke { 'done', token }, { 'unknown' }, { 'stale', token }, { 'revoked',
-- token }, { 'last', token }; find { how many are kept, how many owners are live, the token or '', whether it is live };
-- list { token, ... }; note { id in the stream }.
local act, once, digest, token, for_ms, first, entry = unpacked(ARGV[1])
local MOST = 1000 -- tokens kept; each look at all of them then costs a millisecond
local TOKENS, AUDIT = P .. 'tokens', P .. 'audit'
local clock = call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)

local function live(one) return one.revoked_ms == 0 and (one.expires_ms == 0 or now < one.expires_ms) end

local function note()
  local words = { 'XADD', AUDIT, '*' }
  for _, word in ipairs(entry) do words[#words + 1] = word end
  return call(unpack(words))
end

-- The first kept token that fits, its hash, and how many owners are live.
local function find(fits)
  local all, found, hash, owners = call('HGETALL', TOKENS), nil, nil, 0
  for i = 1, #all, 2 do
    local one = cmsgpack.unpack(all[i + 1])
    if not found and fits(one) then found, hash = one, all[i] end
    if one.role == 'owner' and one.org == '' and live(one) then owners = owners + 1 end
  end
  return found, hash, owners
end

local function keep(hash, one)
  local raw = pack(one)
  call('HSET', TOKENS, hash, raw)
  note()
  call('SET', P .. 'once:' .. once, hash, 'PX', ANSWER_TTL)
  return { 'done', raw }
end

if act == 'find' then
  local raw = call('HGET', TOKENS, digest)
  return { call('HLEN', TOKENS), raw or '', raw and live(cmsgpack.unpack(raw)) and 1 or 0 }
elseif act == 'list' then
  return call('HVALS', TOKENS)
end

local before = call('GET', P .. 'once:' .. once)
if act == 'note' then
  if before then return { before } end
  local id = note()
  call('SET', P .. 'once:' .. once, id, 'PX', ANSWER_TTL)
  return { id }
end
if before then return { 'done', call('HGET', TOKENS, before) } end

if act == 'create' then
  local same, _, owners = find(function(one) return one.name == token.name and live(one) end)
  if first == 1 and owners > 0 then return { 'owned' } end
  if same then return { 'named', pack(same) } end
  if call('HLEN', TOKENS) >= MOST then return { 'full' } end
  token.at_ms, token.expires_ms = now, for_ms > 0 and now + for_ms or 0
  return keep(digest, token)
end

-- revoke: `token` has its id and who takes it back; `digest` is the version that the caller saw, '' = any.
local one, hash, owners = find(function(one) return one.id == token.id end)
if not one then return { 'unknown' } end
if one.revoked_ms > 0 then return { 'revoked', pack(one) } end
if digest ~= '' and digest ~= token.id .. '-0' then return { 'stale', pack(one) } end
if one.role == 'owner' and one.org == '' and live(one) and owners == 1 then return { 'last', pack(one) } end
one.revoked_ms, one.revoked_by = now, token.revoked_by
return keep(hash, one)
