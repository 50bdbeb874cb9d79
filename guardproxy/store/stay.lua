-- stay: which upstream serves a session, so that every worker sends it there (its prompt cache is there).
--
-- KEYS[1]  "gp:{<org>}:"
-- ARGV[1]  session; ARGV[2] names of the upstreams to choose from; ARGV[3] the one chosen, '' to ask; ARGV[4] TTL in ms
--
-- stay:<session>   a hash: names -> the one chosen
local key = KEYS[1] .. 'stay:' .. ARGV[1]
if ARGV[3] == '' then return redis.call('HGET', key, ARGV[2]) or '' end
redis.call('HSET', key, ARGV[2], ARGV[3])
redis.call('PEXPIRE', key, ARGV[4])
return ARGV[3]
