-- registry: orgs, teams and keys. All of it lies in one slot, since whose a key is is not known before it is found.
--
-- KEYS[1]  "gp:{_registry}:"; names of orgs begin with a letter or a digit
-- ARGV[1]  msgpack: the locals below, in this order. `once` is new for each call of the store, and the same when a call
--          is sent again because its answer was lost: then it is answered as before
-- ARGV[2]  for put: the document, opaque here but for the `team` of a key when a team is deleted
--
-- orgs          hash of name -> document
-- teams:<org>   hash of name -> document
-- keys:<org>    hash of id -> document
-- index         hash: id of a key -> org; digest of a secret -> msgpack(org, team, id)
--
-- `expected` is what a writer has read: '*' = anything or nothing, '-' = nothing, else the etag (SHA-1 of the document).
-- Nothing here has a TTL.
local act, once, kind, org, name, expected, team, digests, gone = cmsgpack.unpack(ARGV[1])
local P, call = KEYS[1], redis.call
local DEFAULT = 'default' -- needs no document: a proxy that has no orgs is used by one
local INDEX, ONCE = P .. 'index', P .. 'once:' .. once

local function table_of(kind) return kind == 'org' and P .. 'orgs' or P .. kind .. 's:' .. org end
local function answer(word)
  call('SET', ONCE, word, 'PX', 120000)
  return word
end

if act == 'find' then
  local clock, found = call('TIME'), call('HGET', INDEX, digests[1])
  local now = string.format('%.0f', clock[1] * 1000 + math.floor(clock[2] / 1000))
  if not found then return { now } end
  org, team, name = cmsgpack.unpack(found)
  return { now, org, call('HGET', P .. 'keys:' .. org, name) or '', call('HGET', P .. 'orgs', org) or '',
    team ~= '' and call('HGET', P .. 'teams:' .. org, team) or '' }
end
if act == 'get' then return call('HGET', table_of(kind), name) or '' end
if act == 'list' then return call('HVALS', table_of(kind)) end
if act == 'org_of' then return call('HGET', INDEX, name) or '' end

local before = call('GET', ONCE)
if before then return before end
local place = table_of(kind)
local old = call('HGET', place, name)

if expected == '-' and old then return answer('exists') end
if expected ~= '-' and expected ~= '*' then
  if not old then return answer('unknown') end
  if redis.sha1hex(old) ~= expected then return answer('changed') end
end

if act == 'put' then
  if kind ~= 'org' and org ~= DEFAULT and call('HEXISTS', P .. 'orgs', org) == 0 then return answer('no org') end
  if team ~= '' and call('HEXISTS', P .. 'teams:' .. org, team) == 0 then return answer('no team') end
  call('HSET', place, name, ARGV[2])
elseif act == 'delete' then
  if not old then return answer('unknown') end
  if kind == 'org' and (call('EXISTS', P .. 'teams:' .. name) == 1 or call('EXISTS', P .. 'keys:' .. name) == 1) then
    return answer('in use')
  end
  if kind == 'team' then
    for _, key in ipairs(call('HVALS', P .. 'keys:' .. org)) do
      if cjson.decode(key).team == name then return answer('in use') end
    end
  end
  call('HDEL', place, name)
  if kind == 'key' then call('HDEL', INDEX, name) end
end

for _, digest in ipairs(gone) do call('HDEL', INDEX, digest) end
for _, digest in ipairs(digests) do call('HSET', INDEX, digest, cmsgpack.pack(org, team, name)) end
if kind == 'key' and act == 'put' then call('HSET', INDEX, name, org) end
return answer('done')
