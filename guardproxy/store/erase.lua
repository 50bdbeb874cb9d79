-- erase: end runs, and take out what is kept of them, in steps that are bounded. Safe to run twice.
--
-- Follows state.lua and account.lua in the same script.
-- KEYS[1]  "gp:{<org>}:"; SCAN inside a script looks at the server that has the slot of this key, so that a cluster's
--          other servers are not asked
-- ARGV[1]  msgpack: the locals below, in this order. `names`: sessions, none = all of the org; `at`: where to go on, '0'
--          at first; `some`: keys that are looked at in a step; `user`: of find and unname, '' = anybody
--
-- find     { at, sessions that the user had a part in }: begin writes users beside the threads (d:)
-- end      close the sessions as a person would, so that no turn of theirs begins and those that run end
-- held     { at, tokens that hold something for the sessions }
-- wipe     { at, keys that were taken out or changed }
-- unname   { rows of usage that lost their user }; `at` is the day, which has ROWS rows at most and some more
--
-- What was spent stays: counters of budgets (w:), and sums of usage under MARK. So do tokens (k:, holds): they say what is
-- held, or for two minutes what was answered, and have no content.
local act, at, some, names, user, offset = unpacked(ARGV[1])
local MARK, STOPPED = '(erased)', 10 * MINUTE
local clock = call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000) + offset
local wanted, all = {}, #names == 0
for _, sid in ipairs(names) do wanted[sid] = true end

local function session_of(run)
  local split = string.find(run, SEP, 1, true)
  return split and sub(run, 1, split - 1) or run
end

local function ours(run) return run and (all or wanted[session_of(run)]) end

local function scan(kind)
  local quoted = string.gsub(P, '[%[%]%*%?%^\\]', '\\%0')
  local found = call('SCAN', at, 'MATCH', quoted .. kind .. '*', 'COUNT', some)
  return found[1], found[2]
end

if act == 'find' then
  local next, found = scan(user == '' and 's:' or 'd:')
  local sessions = {}
  for _, key in ipairs(found) do
    if user == '' or call('HEXISTS', key, 'user:' .. user) == 1 then
      sessions[#sessions + 1] = sub(key, #P + 3)
    end
  end
  return { next, sessions }
elseif act == 'end' then
  for _, sid in ipairs(names) do
    local s = read_session(call('GET', P .. 's:' .. sid))
    if s then
      s.closed = 'operator'
      save_session(sid, s, true)
    end
    call('ZADD', P .. 'stopped', now, sid)
  end
  call('PEXPIRE', P .. 'stopped', STOPPED)
  return {}
elseif act == 'held' then
  local from = tonumber(at)
  local tokens, held = call('ZRANGE', P .. 'holds', from, from + some - 1), {}
  for _, token in ipairs(tokens) do
    local kept = call('GET', P .. 'k:' .. token)
    local hold = kept and take('<I4c0', kept) or ''
    if hold ~= '' then
      local _, _, _, _, _, _, sid = take(HELD, hold)
      if all or wanted[sid] then held[#held + 1] = token end
    end
  end
  return { #tokens < some and '0' or tostring(from + some), held }
elseif act == 'unname' then
  local day, count = P .. 'usage:' .. at, 0
  local rows = call('HGETALL', day)
  for i = 1, #rows, 2 do
    local front, who, rest = string.match(rows[i], '^([^\31]*\31[^\31]*\31)([^\31]*)(.*)$')
    if who and who ~= '' and who ~= MARK and who ~= '*' and (user == '' or who == user) then
      local into, sums = front .. MARK .. rest, { take(SUMS, rows[i + 1]) }
      local there = call('HGET', day, into)
      local before = there and { take(SUMS, there) } or {}
      for n = 1, FIELDS do sums[n] = sums[n] + (before[n] or 0) end
      call('HSET', day, into, put(SUMS, unpack(sums, 1, FIELDS)))
      call('HDEL', day, rows[i])
      count = count + 1
    end
  end
  return { count }
end

--------------------------------------------------------------------------------------------------------------- wipe
local count = 0

local function drop(key) count = count + call('UNLINK', key) end

-- Members of a set that belong to the runs; whether any is left.
local function thin(key)
  for _, run in ipairs(call('ZRANGE', key, 0, -1)) do
    if ours(run) then count = count + call('ZREM', key, run) end
  end
  return call('EXISTS', key) == 1
end

local function forget_labels()
  local labels, gone = call('HGETALL', P .. 'labels'), 0
  for i = 1, #labels, 2 do
    if wanted[cmsgpack.unpack(labels[i + 1]).session] then
      local id = labels[i]
      call('HDEL', P .. 'labels', id)
      call('HDEL', P .. 'labels:hits', id)
      call('ZREM', P .. 'labels:at', id)
      gone, count = gone + call('HDEL', P .. 'exempted', id), count + 1
    end
  end
  if gone == 0 then return end
  if call('EXISTS', P .. 'exempted') == 0 then return drop(P .. 'exempt') end
  local version = math.max(now, tonumber(call('GET', P .. 'exempt') or 0) + 1) -- as in label.lua
  call('SET', P .. 'exempt', string.format('%.0f', version), 'KEEPTTL')
end

local function refusal_of(rest) -- refused:<session>:<what it was>; there are colons in both
  if all then return true end
  local from = 9
  while sub(rest, 1, 8) == 'refused:' do
    local colon = string.find(rest, ':', from, true)
    if not colon then return false end
    if wanted[sub(rest, 9, colon - 1)] then return true end
    from = colon + 1
  end
end

local BY_NAME = 's t r e g o d x v history stay checkpoint generation'
local KEPT = { k = true, holds = true, w = true, usage = true, panic = true, stopped = true, once = true,
  extended = true, charged = true, corrected = true }
local whose = {}
for kind in string.gmatch(BY_NAME, '%a+') do whose[kind] = function(key, rest) if ours(rest) then drop(key) end end end

function whose.b(key, rest) if ours(string.match(rest, '^(.*):p%d+$')) then drop(key) end end

function whose.claim(key, rest) if sub(rest, 1, 8) == 'refused:' and refusal_of(rest) then drop(key) end end

function whose.n(key)
  local given = call('GET', key)
  if not given or given == MANY then return end -- goes with its m:
  local _, _, run = unpacked(given)
  if ours(run) then drop(key) end
end

function whose.chain(key)
  if all then return drop(key) end
  local front = call('GETRANGE', key, 0, 5) -- see chains.py
  if sub(front, 1, 4) == 'run\0' and ours(call('GETRANGE', key, 6, 5 + take('<I2', sub(front, 5)))) then
    drop(key)
  end
end

function whose.later(key) if all or ours(call('HGET', key, 'sid')) then drop(key) end end

function whose.m(key, rest) if not thin(key) then drop(P .. 'n:' .. rest) end end

function whose.f(key) thin(key) end

function whose.a(key)
  local runs, left = call('GET', key) or '', {}
  for run in string.gmatch(runs, '[^\30]+') do
    if not ours(run) then left[#left + 1] = run end
  end
  local told = table.concat(left, NEXT)
  if told == '' then
    drop(key)
  elseif told ~= runs then
    call('SET', key, told, 'KEEPTTL')
    count = count + 1
  end
end

function whose.h(key)
  local runs = call('HMGET', key, 'run', 'ended_run')
  if ours(runs[1]) or ours(runs[2]) then drop(key) end
end

function whose.approval(key, rest)
  if ours(call('HGET', key, 'session')) then
    call('ZREM', P .. 'approvals', rest)
    call('ZREM', P .. 'approvals:pending', rest)
    drop(key)
  end
end

if at == '0' and not all then
  for _, set in ipairs({ 'sessions', 'idle', 'asked' }) do
    for _, sid in ipairs(names) do count = count + call('ZREM', P .. set, sid) end
  end
  forget_labels()
end
local next, found = scan('')
for _, key in ipairs(found) do
  local kind, rest = string.match(sub(key, #P + 1), '^([^:]+):?(.*)$')
  if whose[kind] then
    whose[kind](key, rest)
  elseif all and kind and not KEPT[kind] then -- lists of what is taken out here, and what nobody knows
    drop(key)
  end
end
return { next, count }
