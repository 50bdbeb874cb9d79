-- renew: a call still runs, so its hold stays. A token that is no longer held stays as it is.
--
-- KEYS[1]  "gp:{<org>}:"
-- ARGV[1]  token; ARGV[2] lease in milliseconds from now; ARGV[3] clock offset
local P, token, lease = KEYS[1], ARGV[1], tonumber(ARGV[2])
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000) + tonumber(ARGV[3])
local saved = redis.call('MGET', P .. 'k:' .. token)[1]
local held = saved and struct.unpack('<I4c0', saved) or ''
if held == '' then return 0 end
local deadline = redis.call('ZSCORE', P .. 'holds', token)
if not deadline or tonumber(deadline) < now + lease then redis.call('ZADD', P .. 'holds', now + lease, token) end
redis.call('PEXPIRE', P .. 'k:' .. token, math.max(7 * 24 * 3600000, 2 * lease))
local _, _, _, _, _, _, sid = struct.unpack('<dddddI4c0I4c0', held) -- see state.lua
if sid ~= '' then redis.call('ZADD', P .. 'idle', now, sid) end -- a long call is no idle session
return 1
