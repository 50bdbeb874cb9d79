-- run: what people do to a session: pause, resume, cut, reset, extend. Follows state.lua, handover.lua and look.lua.
--
-- KEYS[1]  "gp:{<org>}:"
-- ARGV[1]  msgpack: the locals below, in this order. `once` is new for each call of the store, and the same when a call
--          is sent again because its answer was lost. `who`: of a pause, as in runs.py. `what` is written to
--          the history. `amounts`: of extend, by how much the limits of lines are raised. `expect`: the version of the
--          session that the caller saw (look.lua), '' = any
-- ARGV[2]  the boundary fact in its envelope
--
-- stopped  sessions that were cut by people, by when, for STOPPED: workers look there for calls that run
--
-- Answers { what, the session as look.lua shows it }: done; unknown; or why it cannot be: closed, paused, going, stale.
local act, once, sid, who, by, what, why, amounts, offset, expect = unpacked(ARGV[1])
local STOPPED = 10 * MINUTE
local clock = call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000) + offset
local s = read_session(call('GET', P .. 's:' .. sid))
if not s then return { 'unknown' } end
local function answer(said) return { said, unpack(look(sid, now)) } end
if call('EXISTS', P .. 'once:' .. once) == 1 then return answer('done') end
if expect ~= '' and look(sid, now)[6] ~= expect then return answer('stale') end

local notes = s.notes ~= '' and unpacked(s.notes) or {}
local runs, threads = {}, {}
for _, part in ipairs(call('HKEYS', P .. 'd:' .. sid)) do
  local run = sid .. SEP .. sub(part, 8)
  local t = sub(part, 1, 7) == 'thread:' and read_thread(call('GET', P .. 't:' .. run))
  if t then runs[#runs + 1], threads[#threads + 1] = run, t end
end

-- Whether limits ended it, or paused it: that is for `extend` and `reset` alone.
local function by_budget(rule) return sub(rule, 1, 6) == 'budget' end

-- The ladder begins at its foot: what was seen before is seen no more, and is not held against the run.
local function rearm(run, t)
  t.answers, t.equal, t.steps = 0, 0, t.steps + 1
  if t.held_facts > 0 and call('APPEND', P .. 'r:' .. run, ARGV[2]) > #ARGV[2] then
    t.held_facts = t.held_facts + 1
  else
    call('SET', P .. 'r:' .. run, ARGV[2], 'PX', KEPT_TTL)
    t.held_facts = 1
  end
  call('DEL', P .. 'e:' .. run)
  if t.head ~= '' then call('HDEL', P .. 'h:' .. t.head, 'ended') end -- a task started again is a new run
  save_thread(run, t)
end

local function go_on()
  notes.paused, notes.by, notes.why, s.answers = nil, nil, nil, 0
end

if act == 'pause' then
  if s.closed ~= '' then return answer('closed') end
  if notes.paused then return answer('paused') end
  notes.paused, notes.by, notes.why, s.answers = who, by, why, 0
elseif act == 'cut' then
  if s.closed ~= '' then return answer('closed') end
  s.closed, s.answers, notes.paused, notes.by, notes.why = 'operator', 0, nil, by, why
  call('ZADD', P .. 'stopped', now, sid)
  call('ZREMRANGEBYSCORE', P .. 'stopped', '-inf', now - STOPPED)
  call('PEXPIRE', P .. 'stopped', STOPPED)
  call('ZADD', P .. 'idle', 0, sid) -- its trace ends now, not when it has been idle
elseif act == 'resume' then
  local over = notes.paused ~= nil
  for _, t in ipairs(threads) do over = over or (t.closed ~= '' and not by_budget(t.closed)) end
  if s.closed ~= '' then return answer('closed') end
  if not over then return answer('going') end
  go_on()
  for i, t in ipairs(threads) do
    if not by_budget(t.closed) then t.closed = '' end
    rearm(runs[i], t)
  end
elseif act == 'extend' then
  notes.extra = notes.extra or {}
  for name, more in pairs(amounts) do
    notes.extra[name] = math.min((notes.extra[name] or 0) + more, 2 ^ 53)
  end
  if by_budget(s.closed) then s.closed, s.answers = '', 0 end
  if notes.paused == 'budget' then go_on() end
  for i, t in ipairs(threads) do
    if by_budget(t.closed) then
      t.closed, t.answers = '', 0
      save_thread(runs[i], t)
    end
  end
elseif act == 'reset' then
  go_on()
  s.closed, s.span, s.span_at = '', s.span + 1, now
  local names = { unpacked(s.layout) }
  local values = { take('<' .. string.rep('i8', 2 * #names), s.counters) }
  for i, name in ipairs(names) do
    if byte(name) == 112 then values[2 * i - 1], values[2 * i] = 0, 0 end -- p
  end
  s.counters = put('<' .. string.rep('i8', 2 * #names), unpack(values, 1, 2 * #names))
  for name in pairs(notes.extra or {}) do
    if byte(name) == 112 or byte(name) == 80 then notes.extra[name] = nil end -- p, P
  end
  local span = P .. 'b:' .. sid .. ':p' .. s.span
  call('HSET', span, 'at', now)
  call('PEXPIRE', span, RUN_TTL)
  for i, t in ipairs(threads) do
    t.closed, t.rearmed, t.status = '', 0, 0
    rearm(runs[i], t)
  end
  call('ZREM', P .. 'stopped', sid)
end

s.notes = pack(notes)
save_session(sid, s)
for i, t in ipairs(threads) do
  keep_longer(sid, runs[i], t, s.span, now)
  call('PEXPIRE', P .. 't:' .. runs[i], KEPT_TTL)
end
note_change(sid, now, by, what, why)
call('SET', P .. 'once:' .. once, '1', 'PX', ANSWER_TTL)
return answer('done')
