-- begin: admit one attempt of a turn, or say why not. Whole or not at all, safe to run twice.
--
-- Follows resolve.lua in the same script and uses its locals: P, call, load, now, run (nil: a new thread), number,
-- restart. The answer is the list made by `answer_now`, then ring, episodes and ledger (flat pairs).
local RING, Q_KEPT, REARMS = 64, 256, 3
local RUN_TTL = 25 * HOUR -- lists and counters are renewed at most once an hour, and must live 24 h after the last turn
local WINDOW_TTL = 35 * 24 * HOUR -- counters outside a session: a month and some days
local ANSWER_TTL = 2 * MINUTE -- a client that sends a call again does so within its own time limit

local sid = run and split(run) or session
local s = load('s:' .. sid)
local new_session, unresolved = not s, not run
s = s or { born = now, turn = 0, span = 0, span_at = now, threads = 0, answers = 0, traceparent = traceparent }
run = run or sid .. SEP .. string.sub(head, 1, 12) .. '-' .. (s.threads + 1)
local _, name = split(run)
s.main = s.main or name -- the first thread of a session is its main one
local t = not (new_session or unresolved) and load('t:' .. run)
local new_thread = not t
-- A named session that nothing is known of, with a history that was given to another: the client goes on under another
-- id (a trace id for each request, a session taken up again). Budgets begin anew; the thread, its episodes and our texts
-- go on, so that a loop is not left by changing its name.
local heir_of = new_session and session ~= '' and not fresh and by_link(false, true)
local left = heir_of and load('t:' .. heir_of)
if left and not left.closed then -- of an ended one the history says enough, and other budgets are other budgets
  t = left
  t.open, t.live, t.era, t.renewed, t.head, t.names = 0, 0, 0, 0, '', {}
else
  heir_of = nil
end
local unknown = not t
t = t or { steps = 0, rearmed = 0, answers = 0, equal = 0, open = 0, live = 0, era = 0, renewed = 0, count = 0,
  state = '', answer = '', delivered = '', taken = true, names = {}, head = session == '' and head or '' }
local switches = call('MGET', P .. 'panic', P .. 'exempt') -- see label.lua for the second
local panic, exempt = switches[1] and 1 or 0, tonumber(switches[2] or 0)
local seen = user ~= '' and not new_session and call('SISMEMBER', P .. 'v:' .. sid, user) == 1
local H = P .. 'h:' .. t.head -- of derived runs alone: only they are found, and started again, by their head

-- One more answer of ours under this head: as often may the task be started again and still be the ended run. A start
-- that met the ended run is no new ending: else a job that comes every minute would be refused for ever.
local function ended()
  if t.head == '' or new_thread or restart then return end
  call('HINCRBY', H, 'ended', 1)
  call('HSET', H, 'ended_at', now, 'ended_run', run)
  call('PEXPIRE', H, 2 * RUN_TTL)
end

local function save(key, value) call('SET', P .. key, cmsgpack.pack(value), 'PX', RUN_TTL) end

local function keep(answer)
  call('HSET', K, 'answer', cmsgpack.pack(answer))
  call('PEXPIRE', K, ANSWER_TTL)
  return reply(answer, sid .. SEP .. answer[2])
end

-------------------------------------------------------------------------------------------------- is it closed
-- Budgets are re-opened by people only; a loop's cut by a new word from the user, three times.
local rearm = t.closed and not s.closed and string.sub(t.closed, 1, 6) ~= 'budget'
  and user ~= '' and not seen and t.rearmed < REARMS
if (s.closed or t.closed) and not rearm and panic == 0 then -- in a panic nothing is ended, all is counted
  local closed = s.closed and s or t
  closed.answers = closed.answers + 1
  if s.closed or not fresh then closed.at = now end -- a start again meets the cut for a while after it, not for ever
  save(s.closed and 's:' .. sid or 't:' .. run, closed)
  ended()
  return keep({ sid, name, t.turn or s.turn, now, 0, 1, closed.closed, closed.answers, t.rearmed, t.equal, t.steps,
    s.span, s.span_at, s.born, 0, 1, panic, s.traceparent,
    s.main == name and 1 or 0, exempt, {}, {}, {} })
end

------------------------------------------------------------------------------------------ what is new about it
local aside = not tooled and s.tooled -- a title, a compaction: costs, but is no turn
local same = not aside and not unknown and t.conversation == conversation
local retry = same and (t.state == 'failed' or t.state == 'abandoned'
  or (not fresh and t.state == 'open' and t.open < 2))
local again = same and not retry and t.state == 'answered' -- an equal request after a complete answer
local blank = again and t.answer == 'empty'
local equal = same and not blank and t.equal + (again and 1 or 0) or 0

-- The i-th newest round: digest, index of the message, number of facts, counters to raise.
local read, offset_of_next = {}, rounds < 16 and 1 or 3 -- after the array's own header
local function round(i)
  while #read < i do offset_of_next, read[#read + 1] = cmsgpack.unpack_limit(ARGV[4], 1, offset_of_next) end
  return read[i]
end

-- How many of the newest rounds the ring does not have: down to the one last delivered, else those after the last
-- request. Second value: the delivered one is among them. nil: it may be one of those that were not sent.
local function new_rounds()
  if aside or same then return 0 end
  if unknown then return not older and rounds or nil end
  if not t.taken and t.delivered ~= '' then
    for i = 1, rounds do
      if round(i)[1] == t.delivered then return i, true end
    end
    if older then return nil end
  end
  local some = 0
  while some < rounds and count > t.count and round(some + 1)[2] >= t.count do some = some + 1 end
  return (some < rounds or not older or count <= t.count) and some or nil
end
local news, took = new_rounds()
if not news then return 0 end

-- Genuine: new words after a final answer that was handed on as such.
local genuine = not (aside or same or unknown) and t.state == 'answered' and t.answer == 'text'
  and user ~= '' and not seen
local begins = unknown and (fresh or spoken) and user ~= '' and not seen
-- Where the user speaks is the main thread, once the main one is through: a final answer (of a session with tools: one
-- without may be an agent that puts its whole state into each prompt), a cut, or nothing for a while. While it waits
-- for results, or an attempt runs, others are its sub-agents.
local function through(m)
  return not m or m.closed or (m.state ~= 'open'
    and ((tooled and m.state == 'answered' and m.answer == 'text') or now - m.at >= LATEST_MS))
end
if s.main ~= name and not aside and (genuine or rearm or begins) and through(load('t:' .. sid .. SEP .. s.main)) then
  s.main = name
end
local opens = new_session or (s.main == name and (genuine or rearm or begins))
local old_span = s.span
if opens then s.span, s.span_at = s.span + 1, now end
local turn = retry and t.turn or s.turn + (aside and 0 or 1)

------------------------------------------------------------------------------------------- is there room for it
local spent, short = {}, {}
local groups, order = {}, {} -- key of a scope's counters to the indices of its lines: one read and one write a scope
for i, line in ipairs(lines) do
  local scope, dimension, _, limit, key, ticks = unpack(line)
  if ticks then
    spent[2 * i - 1], spent[2 * i] = now - (scope == 'span' and s.span_at or s.born), 0
    if limit >= 0 and panic == 0 and spent[2 * i - 1] > limit then short[#short + 1] = i end
  else
    local at = (scope == 'session' and 'b:' .. sid .. ':s') or (scope == 'span' and 'b:' .. sid .. ':p' .. s.span)
      or 'w:' .. key
    if not groups[at] then groups[at], order[#order + 1] = {}, at end
    table.insert(groups[at], i)
    if dimension == 'turns' and (retry or aside) then line[3] = 0 end
  end
end
local unborn = {} -- counters that do not exist yet, and so have no TTL
for _, at in ipairs(order) do
  local fields, none = {}, true
  for n, i in ipairs(groups[at]) do
    fields[2 * n - 1], fields[2 * n] = 'u:' .. lines[i][2], 'h:' .. lines[i][2]
  end
  local values = call('HMGET', P .. at, unpack(fields))
  for n, i in ipairs(groups[at]) do
    none = none and not (values[2 * n - 1] or values[2 * n])
    local used, held = tonumber(values[2 * n - 1] or 0), tonumber(values[2 * n] or 0)
    spent[2 * i - 1], spent[2 * i] = used, held
    if lines[i][4] >= 0 and panic == 0 and used + held + lines[i][3] > lines[i][4] then short[#short + 1] = i end
  end
  unborn[at] = none
end

local counts = {}
local function answer_now(admitted)
  return { sid, aside and 'aside' or name, turn, now, retry and 1 or 0, admitted, '', 0, t.rearmed, equal,
    aside and 0 or t.steps, s.span, s.span_at, s.born, new_session and 1 or 0, aside and 0 or 1, panic,
    s.traceparent, s.main == name and 1 or 0, exempt, spent, short, counts }
end
if #short > 0 then
  ended()
  return keep(answer_now(0))
end

------------------------------------------------------------------------------------------------------ admitted
local held = {} -- what settle gives back, and where: to the window held, not to the one of that moment
for _, at in ipairs(order) do
  local write, kept = {}, {}
  for _, i in ipairs(groups[at]) do
    local dimension, hold = lines[i][2], lines[i][3]
    kept[#kept + 1], kept[#kept + 2] = dimension, hold
    if hold > 0 then
      spent[2 * i] = spent[2 * i] + hold
      write[#write + 1], write[#write + 2] = 'h:' .. dimension, spent[2 * i]
    end
  end
  held[#held + 1], held[#held + 2] = at, kept
  if #write > 0 then
    call('HSET', P .. at, unpack(write))
    if unborn[at] then call('PEXPIRE', P .. at, string.sub(at, 1, 2) == 'w:' and WINDOW_TTL or RUN_TTL) end
  end
end

local B = P .. 'b:' .. sid .. ':p'
if heir_of and not aside then
  for _, list in ipairs({ 'r:', 'e:', 'g:' }) do call('COPY', P .. list .. heir_of, P .. list .. run, 'REPLACE') end
end
if opens then
  call('HSET', B .. s.span, 'at', now) -- so that the counters have a key, and the key a TTL
  call('PEXPIRE', B .. s.span, RUN_TTL)
end

-- Facts and counters of the new rounds. What was done before the new words belongs to the old span.
local function append()
  local facts, raised, some = {}, {}, 0
  if rearm or genuine then facts[1] = ARGV[2] end -- in front: an answer repeated after it is repeated in the new span
  if blank then facts[#facts + 1] = ARGV[3] end
  if not retry then t.names = {} end -- a retry is judged by the counters of the first attempt
  for i = 1, news do
    some = some + round(i)[3]
    for what, more in pairs(round(i)[4]) do
      if not raised[what] then t.names[#t.names + 1] = what end
      raised[what] = call('HINCRBY', B .. (new_session and s.span or old_span), 'c:' .. what, more)
    end
  end
  for i, what in ipairs(t.names) do
    counts[2 * i - 1], counts[2 * i] = what, raised[what] or tonumber(call('HGET', B .. s.span, 'c:' .. what) or 0)
  end
  for i = #ARGV - some + 1, #ARGV do facts[#facts + 1] = ARGV[i] end
  local R = P .. 'r:' .. run
  for i = math.max(1, #facts - RING + 1), #facts do call('RPUSH', R, facts[i]) end
  if t.steps == 0 and #facts > 0 then call('PEXPIRE', R, RUN_TTL) end
  t.steps = t.steps + #facts
  if t.steps > RING and #facts > 0 then call('LTRIM', R, -RING, -1) end
end

-- How the run is found again; what it leaves behind is taken out.
local function index(renew)
  local Q = P .. 'q:' .. conversation
  call('ZADD', Q, now, run)
  if now % 8 == 0 then call('ZREMRANGEBYRANK', Q, 0, -Q_KEPT - 1) end -- a bound, not a promise
  call('PEXPIRE', Q, LATEST_MS)
  if t.state == 'failed' or t.state == 'abandoned' or t.answer == 'empty' then
    call('ZREM', P .. 'f:' .. t.conversation, run)
  end
  for _, link in ipairs(links) do call('ZREM', P .. 'l:' .. link, run) end
  if s.latest ~= head .. name then -- the latest thread of a head; the threads there are
    call('HSET', P .. 'd:' .. sid, 'head:' .. head, name)
    if new_thread then call('HSET', P .. 'd:' .. sid, 'thread:' .. name, now) end
    call('PEXPIRE', P .. 'd:' .. sid, RUN_TTL)
    s.latest = head .. name
  end
  if t.head == '' then return end
  call('HINCRBY', H, 'open', 1)
  if number then call('HSET', H, 'runs', number) end
  if restart then call('HINCRBY', H, 'ended', -1) end
  if renew or head ~= t.head then
    call('HSET', P .. 'h:' .. head, 'run', run)
    call('PEXPIRE', P .. 'h:' .. head, 2 * RUN_TTL)
    call('PEXPIRE', H, 2 * RUN_TTL)
  end
end

if not aside then
  local renew = now - t.renewed >= HOUR -- a TTL costs as much as a write
  append()
  index(renew)
  if rearm then t.closed, t.answers, t.rearmed = nil, 0, t.rearmed + 1 end
  if took then t.taken = true end
  if not same then t.open, t.era = 0, t.era + 1 end -- an attempt at an earlier conversation leaves this one alone
  t.turn, t.state, t.conversation, t.count, t.equal, t.at = turn, 'open', conversation, count, equal, now
  t.open, t.live = t.open + 1, t.live + 1
  if renew then t.renewed = now end
  save('t:' .. run, t)
  if user ~= '' and not seen then
    call('SADD', P .. 'v:' .. sid, user)
    call('PEXPIRE', P .. 'v:' .. sid, RUN_TTL)
  end
  if renew then
    for _, key in ipairs({ 'v:' .. sid, 'x:' .. sid, 'd:' .. sid, 'b:' .. sid .. ':s', 'b:' .. sid .. ':p' .. s.span,
      'r:' .. run, 'e:' .. run, 'g:' .. run, 'o:' .. run }) do
      call('PEXPIRE', P .. key, RUN_TTL)
    end
    call('ZADD', P .. 'sessions', now, sid)
    call('ZREMRANGEBYSCORE', P .. 'sessions', '-inf', now - RUN_TTL)
    call('PEXPIRE', P .. 'sessions', RUN_TTL)
  end
  if new_thread then s.threads = s.threads + 1 end
end
s.at, s.turn, s.tooled = now, math.max(turn, s.turn), s.tooled or tooled
save('s:' .. sid, s)
call('ZADD', P .. 'idle', now, sid)

-- The hold. Its key outlives the lease by far: as long as it is there, a sweeper can give back what is held.
local answer = answer_now(1)
call('HSET', K, 'answer', cmsgpack.pack(answer), 'held', cmsgpack.pack({ (aside and new_thread) and '' or run, sid,
  turn, t.era, aside or false, retry, aside and '' or t.head, held }))
call('PEXPIRE', K, math.max(7 * 24 * HOUR, 2 * lease))
call('ZADD', P .. 'holds', now + lease, token)
return reply(answer, sid .. SEP .. answer[2])
