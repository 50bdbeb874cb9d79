-- orphan: the leases of a worker that died end now, so that the sweeper settles them and nobody waits for it.
--
-- KEYS[1]  "gp:{<org>}:"
-- ARGV[1]  what the worker's tokens begin with; ARGV[2] clock offset in milliseconds (0 outside tests)
--
-- Answers how many there were. Safe to run twice.
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000) + tonumber(ARGV[2])
local key, count = KEYS[1] .. 'holds', 0
for _, token in ipairs(redis.call('ZRANGE', key, 0, -1)) do
  if string.sub(token, 1, #ARGV[1]) == ARGV[1] then
    count = count + 1
    redis.call('ZADD', key, 'LT', now, token)
  end
end
return count
