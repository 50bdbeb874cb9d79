-- known: see look.lua, which it follows.
-- ARGV[1]  the session; ARGV[2] clock offset
local clock = call('TIME')
return look(ARGV[1], clock[1] * 1000 + math.floor(clock[2] / 1000) + tonumber(ARGV[2])) or {}
