-- sweep: the tokens whose lease has ended. settle.lua, told so, gives back what each holds; it looks at the lease again.
--
-- KEYS[1]  "gp:{<org>}:"
-- ARGV[1]  clock offset in milliseconds (0 outside tests); ARGV[2] how many at most
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000) + tonumber(ARGV[1])
return redis.call('ZRANGEBYSCORE', KEYS[1] .. 'holds', '-inf', now, 'LIMIT', 0, ARGV[2])
