-- idle: sessions without a turn for so long, each handed out once. A later turn makes the session idle-able again.
--
-- KEYS[1]  "gp:{<org>}:"
-- ARGV[1]  idle for so many milliseconds; ARGV[2] clock offset; ARGV[3] how many at most
local P = KEYS[1]
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000) + tonumber(ARGV[2])
local found = redis.call('ZRANGEBYSCORE', P .. 'idle', '-inf', now - tonumber(ARGV[1]), 'LIMIT', 0, ARGV[3])
local answer = {}
for _, sid in ipairs(found) do
  redis.call('ZREM', P .. 'idle', sid)
  answer[#answer + 1] = { sid, redis.call('GET', P .. 's:' .. sid), redis.call('HKEYS', P .. 'd:' .. sid) }
end
return answer
