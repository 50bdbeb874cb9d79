-- charge: what was used without a hold (requests that were answered here, or passed on unread). Safe to run twice: `once`
-- is new for each call, and the same when it is sent again.
--
-- Follows state.lua and account.lua in the same script.
-- KEYS[1]  "gp:{<org>}:"
-- ARGV[1]  msgpack: the locals below. ARGV[2] msgpack: for each row its name and a list of numbers
local once, offset = unpacked(ARGV[1])
if not call('SET', P .. 'charged:' .. once, '1', 'NX', 'PX', ANSWER_TTL) then return 0 end
local clock = call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000) + offset
for _, row in ipairs(unpacked(ARGV[2])) do account(now, row[1], row[2]) end
return 1
