-- schema: which layout the keys of this store have. Written at the first start, never lowered.
--
-- KEYS[1]  "gp:schema", a hash: `version`, the newest layout that anything was written in, and `needs`, the oldest program
--          (by the layout that it writes) that can live beside that
-- ARGV[1]  the version that the caller writes; ARGV[2] what it needs; ARGV[3] '1' = the store was used before
--
-- Answers { version, needs } as they were: of a store that was used and has none, 1.
local found = redis.call('HMGET', KEYS[1], 'version', 'needs')
local version, needs = tonumber(found[1] or ARGV[3]), tonumber(found[2] or found[1] or ARGV[3])
if needs <= tonumber(ARGV[1]) and tonumber(ARGV[1]) > (found[1] and version or 0) then
  redis.call('HSET', KEYS[1], 'version', ARGV[1], 'needs', math.max(needs, tonumber(ARGV[2])))
end
return { version, needs }
