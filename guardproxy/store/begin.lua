-- begin: admit one attempt of a turn, or say why not. Whole or not at all, safe to run twice.
--
-- Follows resolve.lua in the same script and uses its locals: P, call, now, run (nil: a new thread), number, restart.
-- The answer is the list made by `answer_now`, then ring, episodes and ledger (flat pairs).
local RING, Q_KEPT, REARMS = 64, 256, 3
local RUN_TTL = 25 * HOUR -- refreshed at most once an hour, so that nothing lives less than 24 h after its last turn
local WINDOW_TTL = 35 * 24 * HOUR -- counters outside a session: a month and some days
local ANSWER_TTL = 2 * MINUTE -- a client that sends a call again does so within its own time limit

local sid = run and split(run) or session
local S = P .. 's:' .. sid
local born, span, span_at, main, has_tools, s_closed, s_answers, s_turn, threads, trace = unpack(call('HMGET', S,
  'born', 'span', 'span_at', 'main', 'tooled', 'closed', 'answers', 'turn', 'threads', 'traceparent'))
local new_session, unresolved = not born, not run
run = run or sid .. SEP .. string.sub(head, 1, 12) .. '-' .. (tonumber(threads or 0) + 1)
local _, name = split(run)
local T = P .. 't:' .. run
local t = {} -- the thread as it stands; empty: there is none
if not (new_session or unresolved) then
  local names = { 'turn', 'state', 'answer', 'conversation', 'count', 'delivered', 'taken', 'steps', 'closed',
    'answers', 'rearmed', 'equal', 'open', 'era', 'head', 'names', 'renewed', 'live' }
  local values = call('HMGET', T, unpack(names))
  for i, field in ipairs(names) do t[field] = values[i] end
end
local new_thread = not t.turn
local steps, rearmed = tonumber(t.steps or 0), tonumber(t.rearmed or 0)
local is_main = new_session or main == name
local panic = call('EXISTS', P .. 'panic')
local seen = user ~= '' and not new_session and call('SISMEMBER', P .. 'v:' .. sid, user) == 1
local origin = t.head or (session == '' and head) or '' -- only derived runs are found, and restarted, by their head
local H = P .. 'h:' .. origin

-- One more answer of ours under this head: as often may the task be started again and still be the ended run.
local function ended()
  if origin == '' or new_thread then return end
  if not restart then call('HINCRBY', H, 'ended', 1) end
  call('HSET', H, 'ended_at', now, 'ended_run', run)
  call('PEXPIRE', H, 2 * RUN_TTL)
end

local function keep(answer)
  call('HSET', K, 'answer', cmsgpack.pack(answer))
  call('PEXPIRE', K, ANSWER_TTL)
  return reply(answer, sid .. SEP .. answer[2])
end

-------------------------------------------------------------------------------------------------- is it closed
-- Budgets are re-opened by people only; a loop's cut by a new word from the user, three times.
local rearm = t.closed and not s_closed and string.sub(t.closed, 1, 6) ~= 'budget'
  and user ~= '' and not seen and rearmed < REARMS
if (s_closed or t.closed) and not rearm then
  local answers = tonumber((s_closed and s_answers or t.answers) or 0) + 1
  call('HSET', s_closed and S or T, 'answers', answers, 'at', now)
  ended()
  return keep({ sid, name, tonumber(t.turn or s_turn), now, 0, 1, s_closed or t.closed, answers, rearmed,
    tonumber(t.equal or 0), steps, tonumber(span), tonumber(span_at), tonumber(born), 0, 1, panic, trace, {}, {}, {} })
end

------------------------------------------------------------------------------------------ what is new about it
local aside = not tooled and has_tools == '1' -- a title, a compaction: costs, but is no turn
local same = not aside and not new_thread and t.conversation == conversation
local retry = same and (t.state == 'failed' or t.state == 'abandoned'
  or (not fresh and t.state == 'open' and tonumber(t.open) < 2))
local again = same and not retry and t.state == 'answered' -- an equal request after a complete answer
local blank = again and t.answer == 'empty'
local equal = same and tonumber(t.equal) + ((again and not blank) and 1 or 0) or 0

-- The i-th newest round: digest, index of the message, number of facts, counters to raise.
local read, offset_of_next = {}, rounds < 16 and 1 or 3 -- after the array's own header
local function round(i)
  while #read < i do offset_of_next, read[#read + 1] = cmsgpack.unpack_limit(ARGV[4], 1, offset_of_next) end
  return read[i]
end

-- How many of the newest rounds the ring does not have: down to the one last delivered, else those after the last
-- request. Second value: the delivered one is among them.
local function new_rounds()
  if aside or same then return 0 end
  if new_thread then return rounds end
  if t.taken == '0' and t.delivered ~= '' then
    for i = 1, rounds do
      if round(i)[1] == t.delivered then return i, true end
    end
  end
  local known, some = tonumber(t.count), 0
  while some < rounds and count > known and round(some + 1)[2] >= known do some = some + 1 end
  return some
end
local news, took = new_rounds()

-- Genuine: new words after a final answer that was handed on as such.
local genuine = not (aside or same or new_thread) and t.state == 'answered' and t.answer == 'text'
  and user ~= '' and not seen
local opens = new_session or (is_main and (genuine or rearm))
local old_span = tonumber(span or 0)
span, span_at = old_span + (opens and 1 or 0), opens and now or tonumber(span_at)
born = tonumber(born or now)
local turn = retry and tonumber(t.turn) or tonumber(s_turn or 0) + (aside and 0 or 1)

------------------------------------------------------------------------------------------- is there room for it
local spent, short = {}, {}
local groups, order = {}, {} -- key of a scope's counters to the indices of its lines: one read and one write a scope
for i, line in ipairs(lines) do
  local scope, dimension, _, limit, key, ticks = unpack(line)
  if ticks then
    spent[2 * i - 1], spent[2 * i] = now - (scope == 'span' and span_at or born), 0
    if limit >= 0 and spent[2 * i - 1] > limit then short[#short + 1] = i end
  else
    local at = (scope == 'session' and 'b:' .. sid .. ':s') or (scope == 'span' and 'b:' .. sid .. ':p' .. span)
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
    if lines[i][4] >= 0 and used + held + lines[i][3] > lines[i][4] then short[#short + 1] = i end
  end
  unborn[at] = none
end

local counts = {}
local function answer_now(admitted)
  return { sid, aside and 'aside' or name, turn, now, retry and 1 or 0, admitted, '', 0, rearmed, equal,
    aside and 0 or steps, span, span_at, born, new_session and 1 or 0, aside and 0 or 1, panic,
    trace or traceparent, spent, short, counts }
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
if opens then
  call('HSET', B .. span, 'at', now) -- so that the counters have a key, and the key a TTL
  call('PEXPIRE', B .. span, RUN_TTL)
end
local s_new = { 'at', now, 'turn', math.max(turn, tonumber(s_turn or 0)) }
local era = tonumber(t.era or 0) + (same and 0 or 1) -- an attempt at an earlier conversation leaves this one alone
local renew = new_session
  or (not aside and (new_thread or now - tonumber(t.renewed) >= HOUR)) -- a TTL costs as much as a write

-- Facts and counters of the new rounds. What was done before the new words belongs to the old span.
local function append()
  local facts, names, some = {}, {}, 0
  if rearm or genuine then facts[1] = ARGV[2] end -- in front: an answer repeated after it is repeated in the new span
  if blank then facts[#facts + 1] = ARGV[3] end
  for i = 1, news do
    some = some + round(i)[3]
    for what, more in pairs(round(i)[4]) do
      local n = call('HINCRBY', B .. (new_session and span or old_span), 'c:' .. what, more)
      if not names[what] then names[#names + 1] = what end
      names[what] = n
    end
  end
  for i = #ARGV - some + 1, #ARGV do facts[#facts + 1] = ARGV[i] end
  if retry and t.names ~= '' then -- the first attempt's names, so that the retry is judged by the same
    names = cmsgpack.unpack(t.names)
    for _, what in ipairs(names) do names[what] = tonumber(call('HGET', B .. span, 'c:' .. what) or 0) end
  end
  for n, what in ipairs(names) do
    counts[2 * n - 1], counts[2 * n] = what, names[what]
    names[what] = nil
  end
  local R = P .. 'r:' .. run
  for i = math.max(1, #facts - RING + 1), #facts do call('RPUSH', R, facts[i]) end
  steps = steps + #facts
  if steps > RING and #facts > 0 then call('LTRIM', R, -RING, -1) end
  if steps == #facts and steps > 0 then call('PEXPIRE', R, RUN_TTL) end
  return #names > 0 and cmsgpack.pack(names) or ''
end

local function write_thread()
  local names = append()
  local write = { 'turn', turn, 'state', 'open', 'conversation', conversation, 'count', count, 'steps', steps, 'equal',
    equal, 'open', (same and tonumber(t.open) or 0) + 1, 'era', era, 'at', now, 'names', names,
    'live', tonumber(t.live or 0) + 1 }
  local function set(field, value) write[#write + 1], write[#write + 2] = field, value end
  if took then set('taken', 1) end
  if rearm then
    call('HDEL', T, 'closed')
    rearmed = rearmed + 1
    set('rearmed', rearmed)
    set('answers', 0)
  end
  if new_thread then
    for field, value in pairs({ delivered = '', taken = 1, answer = '', head = origin }) do set(field, value) end
  end
  if renew then set('renewed', now) end
  call('HSET', T, unpack(write))
end

-- How the run is found again; `f` and links of what it leaves behind are taken out.
local function index()
  local Q = P .. 'q:' .. conversation
  call('ZADD', Q, now, run)
  if now % 8 == 0 then call('ZREMRANGEBYRANK', Q, 0, -Q_KEPT - 1) end -- a bound, not a promise
  call('PEXPIRE', Q, LATEST_MS)
  if t.state == 'failed' or t.state == 'abandoned' or t.answer == 'empty' then
    call('ZREM', P .. 'f:' .. t.conversation, run)
  end
  for _, link in ipairs(links) do call('ZREM', P .. 'l:' .. link, run) end
  if origin == '' then return end
  if renew or head ~= origin then call('HSET', P .. 'h:' .. head, 'run', run) end
  if number then call('HSET', H, 'runs', number) end
  call('HINCRBY', H, 'open', 1)
  if restart then call('HINCRBY', H, 'ended', -1) end
  if renew or head ~= origin then
    call('PEXPIRE', P .. 'h:' .. head, 2 * RUN_TTL)
    call('PEXPIRE', H, 2 * RUN_TTL)
  end
end

local function set(field, value) s_new[#s_new + 1], s_new[#s_new + 2] = field, value end
if not aside then
  write_thread()
  index()
  set('head:' .. head, name)
  if new_thread then
    set('threads', tonumber(threads or 0) + 1)
    set('thread:' .. name, now)
  end
  if user ~= '' and not seen then
    call('SADD', P .. 'v:' .. sid, user)
    call('PEXPIRE', P .. 'v:' .. sid, RUN_TTL)
  end
end
if new_session then
  for field, value in pairs({ born = born, main = name, traceparent = traceparent }) do set(field, value) end
end
if opens then
  set('span', span)
  set('span_at', span_at)
end
if tooled and has_tools ~= '1' then set('tooled', 1) end
call('HSET', S, unpack(s_new))
if renew then
  for _, key in ipairs({ 's:' .. sid, 'v:' .. sid, 'x:' .. sid, 'b:' .. sid .. ':s', 'b:' .. sid .. ':p' .. span,
    't:' .. run, 'r:' .. run, 'e:' .. run, 'g:' .. run, 'o:' .. run }) do
    call('PEXPIRE', P .. key, RUN_TTL)
  end
  call('ZADD', P .. 'sessions', now, sid)
  call('ZREMRANGEBYSCORE', P .. 'sessions', '-inf', now - RUN_TTL)
  call('PEXPIRE', P .. 'sessions', RUN_TTL)
end
call('ZADD', P .. 'idle', now, sid)

-- The hold. Its key outlives the lease by far: as long as it is there, a sweeper can give back what is held.
local answer = answer_now(1)
call('HSET', K, 'answer', cmsgpack.pack(answer), 'held', cmsgpack.pack({ (aside and new_thread) and '' or run, sid,
  turn, era, aside, retry, aside and '' or origin, held }))
call('PEXPIRE', K, math.max(7 * 24 * HOUR, 2 * lease))
call('ZADD', P .. 'holds', now + lease, token)
return reply(answer, sid .. SEP .. answer[2])
