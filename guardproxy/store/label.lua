-- label: keep what a person said of a run, let the run go on, and exempt what was said from then on; or take it back.
-- Safe to run twice: a label of this id that is there is answered as it stands.
--
-- Follows state.lua in the same script.
-- KEYS[1]  "gp:{<org>}:"
-- ARGV[1]  msgpack: the locals below. `label` is a map that is kept as it is, but for the moments, which are the
--          server's. `act`: add or revoke (of the label only its id, and who revokes)
-- ARGV[2]  the boundary fact in its envelope, for add
--
-- labels    id -> label, the newest LABELS of them, for `kept_ms` after the last one came; their ids by moment in
--           labels:at, how often each held something back in labels:hits
-- exempted  id -> label of those that stand; gone when the last of them ends
-- exempt    a number that changes with `exempted` and ends with it. begin gives it to the workers with every turn
local act, label, for_ms, kept_ms = unpack(unpacked(ARGV[1]))
local LABELS, STANDING = 1000, 256
local clock = call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)

-- Take out what has ended. How many are left, and when the last of them ends.
local function left()
  local all, some, last = call('HGETALL', P .. 'exempted'), 0, 0
  for i = 1, #all, 2 do
    local ends = cmsgpack.unpack(all[i + 1]).until_ms
    if ends <= now then call('HDEL', P .. 'exempted', all[i]) else some, last = some + 1, math.max(last, ends) end
  end
  return some, last
end

local function tell()
  local some, last = left()
  if some == 0 then return call('DEL', P .. 'exempted', P .. 'exempt') end
  local version = math.max(now, tonumber(call('GET', P .. 'exempt') or 0) + 1)
  call('SET', P .. 'exempt', string.format('%.0f', version), 'PX', last - now)
  call('PEXPIRE', P .. 'exempted', last - now)
end

local function keep()
  call('HSET', P .. 'labels', label.id, cmsgpack.pack(label))
  call('ZADD', P .. 'labels:at', label.at_ms, label.id)
  call('HINCRBY', P .. 'labels:hits', label.id, 0) -- so that there is a key, and the key has a TTL
  local over = call('ZRANGE', P .. 'labels:at', 0, -LABELS - 1)
  for _, id in ipairs(call('ZRANGEBYSCORE', P .. 'labels:at', '-inf', now - kept_ms)) do over[#over + 1] = id end
  for _, id in ipairs(over) do
    call('HDEL', P .. 'labels', id)
    call('HDEL', P .. 'labels:hits', id)
    call('ZREM', P .. 'labels:at', id)
  end
  for _, key in ipairs({ 'labels', 'labels:at', 'labels:hits' }) do call('PEXPIRE', P .. key, kept_ms) end
end

-- The threads that the rule had ended go on, with the ladder at its foot. What a limit ended stays ended. What a thread
-- was told is taken out of its conversation: it was wrong, and would go on to be said with every turn.
local function rearm()
  local opened, shut = 0, {}
  for _, part in ipairs(call('HKEYS', P .. 'd:' .. label.session)) do
    local run = label.session .. SEP .. string.sub(part, 8)
    local t = string.sub(part, 1, 7) == 'thread:' and read_thread(call('GET', P .. 't:' .. run)) or nil
    local ours = t and t.closed == label.rule
    if t and (ours or t.closed == '') and t.told then
      call('DEL', P .. 'g:' .. run, P .. 'o:' .. run)
    end
    if ours then
      t.closed, t.answers, t.equal, t.steps = '', 0, 0, t.steps + 1
      if t.held_facts > 0 and call('APPEND', P .. 'r:' .. run, ARGV[2]) > #ARGV[2] then
        t.held_facts = t.held_facts + 1
      else
        call('SET', P .. 'r:' .. run, ARGV[2], 'PX', RUN_TTL)
        t.held_facts = 1
      end
      save_thread(run, t)
      if t.head ~= '' then call('HDEL', P .. 'h:' .. t.head, 'ended') end -- a task started again is a new run
      opened = opened + 1
    elseif t and t.closed ~= '' then
      shut[#shut + 1] = t.closed
    end
  end
  return opened, shut
end

local known = call('HGET', P .. 'labels', label.id)
if act == 'revoke' then
  if not known then return { 'unknown' } end
  local old = cmsgpack.unpack(known)
  if old.revoked_ms > 0 then return { 'revoked', known } end
  old.revoked_ms, old.revoked_by, label = now, label.by, old
  call('HDEL', P .. 'exempted', label.id)
  keep()
  tell()
  return { 'done', cmsgpack.pack(label) }
end
if known then return { 'done', known, 0, {} } end
local s = read_session(call('GET', P .. 's:' .. label.session))
if not s then return { 'unknown' } end
if left() >= STANDING then return { 'full' } end
label.at_ms, label.until_ms = now, now + for_ms
keep()
call('HSET', P .. 'exempted', label.id, cmsgpack.pack(label))
tell()
local opened, shut = rearm()
if s.closed ~= '' then shut[#shut + 1] = s.closed end
return { 'done', cmsgpack.pack(label), opened, shut }
