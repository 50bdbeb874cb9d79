-- approval: a call that is held until a person decides. What it says (`sealed`, `edited`) is opaque here.
--
-- Follows state.lua and handover.lua in the same script. What happens is written to the history of the session, too.
-- KEYS[1]  "gp:{<org>}:"
-- ARGV[1]  msgpack: the locals below, in this order. `once` is new for each call of the store, and the same when a call
--          is sent again because its answer was lost: then it is answered as before
-- ARGV[2]  for open and decide: the bytes to keep, "" = none
--
-- approval:<id>  a hash, its fields as in approvals.py, and `once` of the decision; kept for KEPT_TTL after its time
-- approvals      ids by when they are forgotten; approvals:pending  ids by when they expire
--
-- Each answers { what, one or more approvals as flat lists }. An approval that is past its time is shown as expired; it
-- is written so by `due`, or by whoever decides that.
local act, once, id, fields, offset = unpacked(ARGV[1])
local ALL, OPEN, MOST = P .. 'approvals', P .. 'approvals:pending', 256
local clock = call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000) + offset
local STATES = { approve = 'approved', deny = 'denied', answer = 'answered', expire = 'expired' }

local function key_of(id) return P .. 'approval:' .. id end

-- State and end of one, as things stand now; nil: there is none.
local function state_of(id)
  local found = call('HMGET', key_of(id), 'state', 'expires_ms')
  if not found[1] then return nil end
  if found[1] == 'pending' and now >= tonumber(found[2]) then return 'expired', true end
  return found[1], false
end

local function shown(id)
  local state = state_of(id)
  local all = state and call('HGETALL', key_of(id)) or {}
  for i = 1, #all, 2 do
    if all[i] == 'state' then all[i + 1] = state end
  end
  return all
end

local function close(id, state, by, why)
  call('HSET', key_of(id), 'state', state, 'decided_ms', string.format('%.0f', now), 'by', by, 'why', why)
  call('ZREM', OPEN, id)
  note_change(call('HGET', key_of(id), 'session'), now, by, state .. ' ' .. id, why)
end

if act == 'open' then
  local key = key_of(id)
  if call('EXISTS', key) == 0 then
    -- Of two turns of a thread at once, one asks: the other is given what waits already, until that is over, released
    -- too. A question that the user went on from is over with the next one.
    local run = fields.session .. SEP .. fields.thread
    local t = read_thread(call('GET', P .. 't:' .. run))
    if t and t.waits ~= '' then
      local state, token = state_of(t.waits), call('HGET', key_of(t.waits), 'token') or ''
      if state == 'pending' and t.status == 1 then
        close(t.waits, 'expired', 'a later request', 'asked ' .. id)
      elseif state == 'pending' or (state == 'approved' and token == ''
        and now < tonumber(call('HGET', key_of(t.waits), 'expires_ms'))) then
        return { 'done', shown(t.waits) }
      end
    end
    local ends = fields.expires_ms
    local gone = math.max(ends, now) + KEPT_TTL
    local write = { 'HSET', key, 'id', id, 'state', 'pending', 'sealed', ARGV[2] }
    for name, text in pairs(fields) do
      write[#write + 1] = name
      write[#write + 1] = type(text) == 'number' and string.format('%.0f', text) or text
    end
    call(unpack(write))
    call('PEXPIRE', key, string.format('%.0f', gone - now))
    call('ZADD', OPEN, string.format('%.0f', ends), id)
    call('ZADD', ALL, string.format('%.0f', gone), id)
    for _, set in ipairs({ OPEN, ALL }) do
      local left = call('PTTL', set)
      if left < gone - now then call('PEXPIRE', set, string.format('%.0f', gone - now)) end
    end
    call('ZREMRANGEBYSCORE', ALL, '-inf', now)
    note_change(fields.session, now, 'approval', 'asked ' .. id, fields.tool)
    -- The thread waits from now on: who asks again while the request is held, or after its worker died, meets the
    -- approval, and no second one is asked for.
    if t then
      t.waits = id
      if fields.question == 1 then t.status = 1 end
      save_thread(run, t)
    end
  end
  return { 'done', shown(id) }
end

if act == 'decide' then
  local state, late = state_of(id)
  if not state then return { 'unknown' } end
  if state == 'pending' or (late and fields.verdict == 'expire') then
    close(id, STATES[fields.verdict], fields.by, fields.why)
    call('HSET', key_of(id), 'edited', ARGV[2], 'once', once)
  elseif call('HGET', key_of(id), 'once') ~= once then
    return { 'decided', shown(id) }
  end
  return { 'done', shown(id) }
end

-- A rule forbids what was approved, as it stands now: it is denied, unless somebody has it already.
if act == 'forbid' then
  local one = call('HMGET', key_of(id), 'state', 'token')
  if one[1] == 'approved' and (one[2] or '') == '' then close(id, 'denied', fields.by, fields.why) end
  return { 'done', shown(id) }
end

if act == 'claim' then
  if state_of(id) ~= 'approved' then return { 'lost' } end
  local one = call('HMGET', key_of(id), 'token', 'session', 'thread')
  if one[1] and one[1] ~= '' then return { one[1] == fields.token and 'won' or 'lost' } end
  local s = read_session(call('GET', P .. 's:' .. one[2]))
  local t = read_thread(call('GET', P .. 't:' .. one[2] .. SEP .. one[3]))
  local notes = s and s.notes ~= '' and unpacked(s.notes) or {}
  local closed = s and s.closed ~= '' and s.closed or t and t.closed or ''
  if call('EXISTS', P .. 'panic') == 0 then -- as in begin: in a panic nobody is held up
    if closed ~= '' then return { 'closed', closed, notes.why or '' } end
    if notes.paused then return { 'paused', notes.paused, notes.why or '' } end
  end
  call('HSET', key_of(id), 'token', fields.token)
  return { 'won' }
end

if act == 'arrived' then
  local one = call('HMGET', key_of(id), 'token', 'arrived')
  if (one[1] or '') ~= '' and one[2] ~= 'yes' then call('HSET', key_of(id), 'arrived', fields.arrived) end
  return { 'done' }
end

-- The token has given nothing to anybody: the next one may, and the thread waits on.
if act == 'unclaim' then
  local one = call('HMGET', key_of(id), 'state', 'token', 'session', 'thread')
  if one[1] ~= 'approved' or one[2] ~= fields.token then return 0 end
  call('HSET', key_of(id), 'token', '')
  local run = one[3] .. SEP .. one[4]
  local t = read_thread(call('GET', P .. 't:' .. run))
  if t and t.waits == '' then
    t.waits = id
    save_thread(run, t)
  end
  return 1
end

if act == 'due' then -- each is handed out once
  local answer = { 'done' }
  for _, one in ipairs(call('ZRANGEBYSCORE', OPEN, '-inf', now, 'LIMIT', 0, MOST)) do
    local state, late = state_of(one)
    if late then
      close(one, state, '', '')
      answer[#answer + 1] = shown(one)
    else
      call('ZREM', OPEN, one)
    end
  end
  return answer
end

-- get, list: nothing is written.
if act == 'get' then return { 'done', shown(id) } end
local answer, ids = { 'done' }, nil
if fields.state == 'pending' then
  ids = call('ZRANGEBYSCORE', OPEN, string.format('(%.0f', now), '+inf', 'LIMIT', 0, MOST)
else
  ids = call('ZREVRANGE', ALL, 0, 4 * MOST - 1)
end
for _, one in ipairs(ids) do
  local all = #answer <= MOST and shown(one) or {}
  for i = 1, #all, 2 do
    if all[i] == 'state' and (fields.state == '' or all[i + 1] == fields.state) then answer[#answer + 1] = all end
  end
end
return answer
