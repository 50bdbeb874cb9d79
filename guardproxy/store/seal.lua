-- seal: who may send the root of a session's trace. One caller is told 1; the next turn begins another segment.
--
-- Follows state.lua in the same script.
-- KEYS[1]  "gp:{<org>}:"
-- ARGV[1]  the session; ARGV[2] since when it is known; ARGV[3] the segment; ARGV[4] a token, new for each caller, and
--          the same when a call is sent again because its answer was lost; ARGV[5] "f" after a finalize, else "s"
local sid = ARGV[1]
local s = read_session(call('GET', P .. 's:' .. sid))
-- Of a session that is not kept (its first request had no room) nobody else knows.
if not s or string.format('%.0f', s.born) ~= ARGV[2] then return 1 end
local caller, number, from, first, mark, whose = string.match(s.traceparent, '^([^;]*);(%d+);(%d+);(%d+);(%a);?(.*)$')
if (number or '0') ~= ARGV[3] then return 0 end -- that one is over, and its root sent
if mark == 's' or mark == 'f' then return whose == ARGV[4] and 1 or 0 end
s.traceparent = table.concat({ caller or s.traceparent, ARGV[3], from or ARGV[2], first or 0, ARGV[5], ARGV[4] }, ';')
save_session(sid, s, 'KEEPTTL')
return 1
