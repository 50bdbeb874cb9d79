-- policy: named policies that the admin API keeps, for all workers of all machines.
--
-- KEYS[1]  "gp:{_registry}:", beside orgs, teams and keys
-- ARGV[1]  msgpack: the locals below, in this order. `once` is new for each call of the store, and the same when a call
--          is sent again because its answer was lost: then it is answered as before
-- ARGV[2]  for put: the document, opaque here
--
-- policies       hash of name -> msgpack list: revision, time, document
-- policies:rev   hash of name -> its last revision; a policy that was forgotten and comes again is another revision
-- policies:now   the `once` of the last change of any: who reads nothing else sees whether there is something to read
-- policies:<n>   list of the newest revisions of a name, as above, the newest first
--
-- `expected`: '*' = anything or nothing, else the revision that the writer has seen. Nothing here has a TTL.
local act, once, name, expected, most = cmsgpack.unpack(ARGV[1])
local P, call = KEYS[1], redis.call
local ALL, ONCE = P .. 'policies', P .. 'once:' .. once

if act == 'list' then return { call('GET', ALL .. ':now') or '', call('HGETALL', ALL) } end
if act == 'now' then return call('GET', ALL .. ':now') or '' end
if act == 'revisions' then return call('LRANGE', ALL .. ':' .. name, 0, -1) end

local before = call('GET', ONCE)
if before then return before end
local function answer(word)
  call('SET', ONCE, word, 'PX', 120000)
  return word
end

local old = call('HGET', ALL, name)
if expected ~= '*' and (not old or tostring(cmsgpack.unpack(old)[1]) ~= expected) then return answer('changed') end
if act == 'delete' then
  if not old then return answer('unknown') end
  call('HDEL', ALL, name)
else
  if not old and call('HLEN', ALL) >= most then return answer('full') end
  local clock = call('TIME')
  local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
  local kept = cmsgpack.pack({ call('HINCRBY', ALL .. ':rev', name, 1), now, ARGV[2] })
  call('HSET', ALL, name, kept)
  call('LPUSH', ALL .. ':' .. name, kept)
  call('LTRIM', ALL .. ':' .. name, 0, most - 1)
end
call('SET', ALL .. ':now', once)
return answer('done')
