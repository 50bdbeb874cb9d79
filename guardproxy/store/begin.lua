-- begin: admit one attempt of a turn, or say why not. Whole or not at all, safe to run twice.
--
-- Follows state.lua and resolve.lua in the same script and uses their locals: run (nil: a new thread), number, restart.
-- The answer: see `answer_now` (what is rare in it is one list, `more`: the lines that are short, counters, limits that
-- people raised, who paused it and why, the approval waited for and its state), then the ring, how many facts are in it,
-- how many of them are to be left out, and, where there are any, episodes and ledger (flat pairs).
local RING, SLACK, ASKED, REARMS = 64, 32, 16, 3

local sid, name = session, nil
if run then
  local at = string.find(run, SEP, 1, true)
  sid, name = sub(run, 1, at - 1), sub(run, at + 1)
end
local mark = P .. 's:' .. sid
local read = run and call('MGET', mark, P .. 't:' .. run, P .. 'r:' .. run) or call('MGET', mark)
local s = read_session(read[1])
local new_session, unresolved = not s, not run
s = s or { born = now, at = now, seen = now, idle = 0, turn = 0, span = 0, span_at = now, threads = 0, answers = 0,
  tooled = false, closed = '', main = '', latest = '', traceparent = traceparent, notes = '', layout = '',
  counters = '' }
if unresolved then
  name = sub(head, 1, 12) .. '-' .. (s.threads + 1)
  run = sid .. SEP .. name
end
if s.main == '' and not never then s.main = name end -- the first thread of a session is its main one
local t = not (new_session or unresolved) and read_thread(read[2])
local ring = t and read[3] or ''
local new_thread = not t
-- A named session that nothing is known of, with a history that was given to another: the client goes on under another
-- id (a trace id for each request, a session taken up again). Budgets begin anew; the thread, its episodes and our texts
-- go on, so that a loop is not left by changing its name.
local heir_of = new_session and session ~= '' and not fresh and search(true)
if heir_of then
  local at = string.find(heir_of, SEP, 1, true)
  local of = sub(heir_of, 1, at - 1)
  local left = call('MGET', P .. 't:' .. heir_of, P .. 'r:' .. heir_of, P .. 's:' .. of)
  local from = read_session(left[3])
  t, ring = read_thread(left[1]), left[2] or ''
  if t and from and (from.closed == 'operator' or (from.notes ~= '' and unpacked(from.notes).paused)) then
    s, sid, name, run = from, of, sub(heir_of, at + 1), heir_of -- what people hold, they hold under any name
    new_session, new_thread, heir_of = false, false, nil
  elseif t and t.closed == '' then -- of an ended one the history says enough, and other budgets are other budgets
    t.open, t.live, t.era, t.renewed, t.head, t.names, t.user = 0, 0, 0, 0, '', '', ''
  else
    t, ring, heir_of = nil, '', nil
  end
end
local unknown = not t
t = t or { at = now, turn = 0, steps = 0, held_facts = 0, count = 0, equal = 0, open = 0, live = 0, era = 0,
  renewed = 0, rearmed = 0, answers = 0, taken = true, told = false, answered = 0, status = 0, state = '', answer = '',
  delivered = '', conversation = '', names = '', user = '', head = session == '' and head or '', closed = '',
  waits = '' }
if ring == '' then t.held_facts = 0 end
local seen = user ~= '' and not new_session and (user == t.user or call('SISMEMBER', P .. 'v:' .. sid, user) == 1)
local H = P .. 'h:' .. t.head -- of derived runs alone: only they are found, and started again, by their head

-- One more answer of ours under this head: as often may the task be started again and still be the ended run. A start
-- that met the ended run is no new ending: else a job that comes every minute would be refused for ever.
-- The answer is kept, since the client may ask for it again. `soon`: it is told to, so the run is not ended.
local function refuse(answer, kept, soon)
  if t.head ~= '' and not new_thread and not restart and not soon then
    call('HINCRBY', H, 'ended', 1)
    call('HSET', H, 'ended_at', now, 'ended_run', run)
    call('PEXPIRE', H, 2 * RUN_TTL)
  end
  call('SET', K, put('<I4', 0) .. answer, 'PX', ANSWER_TTL)
  return reply(answer, kept and ring or '', kept, 0, run)
end

local aside = never or (not tooled and s.tooled) -- a title, a compaction: costs, but is no turn
local since = t.answered > 0 and not aside and math.max(1, now - t.answered) or 0
local status, missing = aside and 0 or t.status, 0

-------------------------------------------------------------------------------------------------- is it closed
-- Budgets are re-opened by people only; a loop's cut by a new word from the user, three times.
local closed = s.closed ~= '' or t.closed ~= ''
local rearm = closed and s.closed == '' and sub(t.closed, 1, 6) ~= 'budget'
  and user ~= '' and not seen and t.rearmed < REARMS
if closed and not rearm and panic == 0 then -- in a panic nothing is ended, all is counted
  local one = s.closed ~= '' and s or t
  one.answers = one.answers + 1
  if one == s or not fresh then one.at = now end -- a start again meets the cut for a while after it, not for ever
  if one == s then save_session(sid, s) else save_thread(run, t) end
  return refuse(put(ANSWER, t.steps, t.turn > 0 and t.turn or s.turn, now, 0, 1, one.answers, t.rearmed, t.equal,
    s.span, s.span_at, s.born, 0, 1, panic, s.main == name and 1 or 0, exempt,
    put('<i8i8i8', since, status, 0), #sid, #name, #one.closed, #s.traceparent, 0, 0, sid, name, one.closed,
    s.traceparent, '', ''), t)
end

-------------------------------------------------------------------------------------------------- is it paused
-- By a person, a loop or a budget: the session. By an approval that is open: the thread. Only people end it, and time.
local notes, paused, why, approval, verdict, taken = nil, '', '', aside and '' or t.waits, '', false
if s.notes ~= '' then
  notes = unpacked(s.notes)
  paused, why = notes.paused or '', notes.paused and notes.why or ''
end
if approval ~= '' then
  local found = call('HMGET', P .. 'approval:' .. approval, 'state', 'expires_ms', 'tool', 'token')
  verdict = found[1] or 'expired' -- of one that is gone nobody knows more
  taken = (found[4] or '') ~= ''
  if verdict == 'pending' then
    if now >= tonumber(found[2]) then
      verdict = 'expired'
    elseif paused == '' and not (t.status == 1 and user ~= '' and not seen) then -- new words answer a question, too
      paused, why = 'approval', found[3]
    end
  end
end
if panic == 1 then paused, why = '', '' end
if paused ~= '' then
  local one = paused == 'approval' and t or s
  one.answers = one.answers + 1
  if one == s then save_session(sid, s) else save_thread(run, t) end
  local more = '\151' .. pack({}, {}, {}, paused, why, approval, verdict)
  return refuse(put(ANSWER, t.steps, t.turn > 0 and t.turn or s.turn, now, 0, 0, one.answers, t.rearmed, t.equal,
    s.span, s.span_at, s.born, 0, 1, panic, s.main == name and 1 or 0, exempt,
    put('<i8i8i8', since, status, 0), #sid, #name, 0, #s.traceparent, 0, #more, sid, name, '', s.traceparent, '',
    more), t)
end

------------------------------------------------------------------------------------------ what is new about it
local same = not aside and not unknown and t.conversation == conversation
local retry = same and (t.state == 'failed' or t.state == 'abandoned'
  or (not fresh and t.state == 'open' and t.open < 2))
local again = same and not retry and t.state == 'answered' -- an equal request after a complete answer
local blank = again and t.answer == 'empty'
local equal = same and not blank and t.equal + (again and 1 or 0) or 0

-- How many of the newest rounds (digest, index of the message, number of facts, counters to raise) the ring does not
-- have: down to the one last delivered (`took`), else those after the last request. If it may be one of those that were
-- not sent, we have to ask for them.
local history, news, took = {}, 0, false
if not (aside or same) then
  local offset_of_next, raw = 0, ARGV[4]
  local looking = not unknown and not t.taken and t.delivered ~= ''
  for i = 1, rounds do
    offset_of_next, history[i] = cmsgpack.unpack_limit(raw, 1, offset_of_next)
    if unknown then
      news = i
    elseif looking and history[i][1] == t.delivered then
      news, took = i, true
      break
    elseif i == 1 and looking and older ~= 2 and history[1][2] < t.count and history[1][3] > 1 and user == ''
      and count >= t.count then
      return t.delivered -- the newest round, of several calls, began before the last answer: has it grown by that one?
    elseif news == i - 1 and count > t.count and history[i][2] >= t.count then
      news = i
    elseif not looking then
      break
    end
  end
  if older == true and not took and (unknown or looking or (news == rounds and count > t.count)) then return 0 end
  -- The agent forgot to append: its history has grown by words of the user, and has no new round, nor the one it was
  -- given. Under a head that this thread did not have before, it is a compaction.
  if looking and not took and news == 0 and t.state == 'answered' and count > t.count and user ~= '' and not seen
    and call('HGET', P .. 'd:' .. sid, 'head:' .. head) == name then
    missing = 1
  elseif grown and (rounds == 0 or history[1][2] < grown) then
    missing = 1
  end
end

-- Genuine: new words after a final answer that was handed on as such.
local genuine = not (aside or same or unknown) and t.state == 'answered' and t.answer == 'text'
  and user ~= '' and not seen
local begins = unknown and (fresh or spoken) and user ~= '' and not seen
-- Where the user speaks is the main thread, once the main one is through: a final answer (of a session with tools: one
-- without may be an agent that puts its whole state into each prompt), a cut, or nothing for a while. While it waits
-- for results, or an attempt runs, others are its sub-agents.
if s.main ~= name and not aside and (genuine or rearm or begins) then
  local m = read_thread(call('GET', P .. 't:' .. sid .. SEP .. s.main))
  if not m or m.closed ~= '' or (m.state ~= 'open'
    and ((tooled and m.state == 'answered' and m.answer == 'text') or now - m.at >= LATEST_MS)) then
    s.main = name
  end
end
local opens = new_session or (s.main == name and (genuine or rearm or begins))
local old_span = s.span
if opens then s.span, s.span_at = s.span + 1, now end
local extra = notes and notes.extra
if extra and opens then -- what a span was given more ends with it
  for what in pairs(extra) do
    if sub(what, 1, 1) == 'p' or sub(what, 1, 1) == 'P' then extra[what] = nil end
  end
  s.notes = pack(notes)
end
local turn = retry and t.turn or s.turn + (aside and 0 or 1)

------------------------------------------------------------------------------------------- is there room for it
-- The counters are in the order of these lines, as they were the last time.
local layout, size = ARGV[5], 2 * #kinds
local integers = '<' .. string.rep('i8', size)
local spent, amounts, short, behind = {}, { take(integers, ARGV[6]) }, {}, ''
if s.layout == layout or (not opens and layout ~= '' and sub(s.layout, 1, #layout) == layout) then
  spent, behind = { take(integers, s.counters) }, sub(s.counters, 8 * size + 1)
else -- what none of these lines asks for is kept behind them: a session may be asked under several policies
  local names, place = { unpacked(s.layout) }, {}
  local values = { take('<' .. string.rep('i8', 2 * #names), s.counters) }
  for i = 1, #names do place[names[i]] = i end
  s.layout = layout
  for i, what in ipairs({ unpacked(layout) }) do
    local at = place[what]
    spent[2 * i - 1], spent[2 * i] = at and values[2 * at - 1] or 0, at and values[2 * at] or 0
    if at then names[at] = false end
  end
  for i = 1, #names do
    local scope = names[i] and byte(names[i])
    if scope == 115 or (scope == 112 and not opens) then -- s, p
      s.layout, behind = s.layout .. pack(names[i]), behind .. put('<i8i8', values[2 * i - 1], values[2 * i])
    end
  end
end
local keyed, hard, raised = 0, false, extra and {}
if extra then
  for i, what in ipairs({ unpacked(layout) }) do
    if extra[what] and amounts[i] >= 0 then
      amounts[i] = math.min(amounts[i] + extra[what], 2 ^ 53)
      raised[#raised + 1], raised[#raised + 2] = i, amounts[i]
    end
  end
end
for i = 1, #kinds do
  local kind, u = byte(kinds, i), 2 * i - 1
  local limit, hold = amounts[i], amounts[#kinds + i]
  if kind == 83 or kind == 80 then -- S, P: clocks
    spent[u], spent[u + 1] = now - (kind == 80 and s.span_at or s.born), 0
  elseif kind == 119 or kind == 118 or kind == 114 then -- w, v, r: of a key
    keyed = keyed + 1
    -- Which of the windows that the key names it is now, see core/windows.py: by this clock, not by the caller's.
    local base, rest = string.match(keys[keyed], '^([^\30]*)\30(.*)$')
    if base and tonumber(rest) then
      keys[keyed] = string.format('%s:%.0f', base, math.floor(now / tonumber(rest)))
    elseif base then
      local past, from, this, till, next = string.match(rest, '^([^\30]*)\30(%d+)\30([^\30]*)\30(%d+)\30([^\30]*)')
      keys[keyed] = base .. ':' .. (now < tonumber(from) and past or now < tonumber(till) and this or next)
    end
    local dimension = sub(select(i, unpacked(layout)), 3)
    local values = call('HMGET', P .. 'w:' .. keys[keyed], 'u:' .. dimension, 'h:' .. dimension)
    spent[u], spent[u + 1] = tonumber(values[1] or 0), tonumber(values[2] or 0)
  elseif opens and (kind == 112 or kind == 113) then -- p, q: of the span
    spent[u], spent[u + 1] = 0, 0
  end
  if (retry or aside) and (kind == 116 or kind == 113 or kind == 118) then -- t, q, v: turns
    hold, amounts[#kinds + i] = 0, 0
  end
  if limit >= 0 and panic == 0 and spent[u] + spent[u + 1] + hold > limit then
    short[#short + 1], hard = i, hard or kind ~= 114
  end
end

local counts, any = {}, #short > 0
local rare = (extra or approval ~= '') and pack(raised or {}, '', '', approval, verdict)
local carried = asked[4] and byte(links[1]) ~= 42 -- its newest round was given out under this head
if carried and asked[4] == MANY then carried = call('EXISTS', P .. 'm:' .. links[1]) == 1 end -- and is not left behind
local before = put('<i8i8i8', since, status, missing + (carried and 2 or 0))
local function answer_now(admitted, standing) -- each local of outside costs something with every turn
  local thread, steps, more = name, t.steps, ''
  if rare then
    more = '\151' .. pack(short, counts) .. rare -- msgpack: a list of seven, of two
  elseif any then
    more = '\146' .. pack(short, counts)
  end
  if aside then thread, steps = 'aside', 0 end
  return put(ANSWER, steps, turn, now, retry and 1 or 0, admitted, 0, t.rearmed, equal, s.span, s.span_at, s.born,
    new_session and 1 or 0, aside and 0 or 1, panic, s.main == name and 1 or 0, exempt, before, #sid, #thread,
    0, #s.traceparent, #standing, #more, sid, thread, '', s.traceparent, standing, more)
end
if #short > 0 then
  return refuse(answer_now(0, put(integers, unpack(spent, 1, size))), not aside and t or nil, not hard)
end

------------------------------------------------------------------------------------------------------ admitted
-- A trace is of a bounded stretch of a run (`traceparent` in state.lua): the next segment begins with the turn after
-- the root was sent ("s"; after a finalize, which agents answer by asking on, "f", with what is new or comes late), and,
-- where the trace is our own, with the turn that makes it too long. That turn is told what was ended ("r"): it sends the
-- root. What opens a session, and what is no turn, begins none.
if not (new_session or aside) and (s.traceparent ~= '' or turn > 300 or now - s.born >= 6 * HOUR) then
  local text = s.traceparent
  local caller, number, from, first, mark = string.match(text, '^([^;]*);(%d+);(%d+);(%d+);(%a)')
  caller, number, from, first = caller or text, number or 0, tonumber(from or s.born), tonumber(first or 0)
  local over = mark == 's' or (mark == 'f' and (opens or rearm or now - s.seen >= 15 * MINUTE))
  local long = mark ~= 's' and mark ~= 'f' and caller == '' and (turn - first > 300 or now - from >= 6 * HOUR)
  if long or over then
    local ended = long and string.format('r;%.0f;%.0f', from, s.seen) or 'o'
    s.traceparent = string.format('%s;%d;%.0f;%.0f;%s', caller, number + 1, now, turn - 1, ended)
  end
end
for i = 1, #kinds do
  spent[2 * i] = spent[2 * i] + amounts[#kinds + i]
end
local standing = put(integers, unpack(spent, 1, size))
s.counters = standing .. behind
if keyed > 0 then
  local names, nth = { unpacked(layout) }, 0
  for i = 1, #names do
    if byte(names[i]) == 119 then
      nth = nth + 1
      local window = keys[nth]
      call('HSET', P .. 'w:' .. window, 'h:' .. sub(names[i], 3), string.format('%.0f', spent[2 * i]))
      if spent[2 * i - 1] == 0 then -- it may be new
        if sub(window, 1, 2) ~= 't:' then
          call('PEXPIRE', P .. 'w:' .. window, string.find(window, '^[mh]:') and RATE_TTL or WINDOW_TTL)
        elseif sub(window, 1, 7) == 't:user:' then
          call('PEXPIRE', P .. 'w:' .. window, USER_TTL)
        end
      end
    end
  end
end

if heir_of and not aside then
  for _, list in ipairs({ 'e:', 'g:' }) do call('COPY', P .. list .. heir_of, P .. list .. run, 'REPLACE') end
end
local B = P .. 'b:' .. sid .. ':p'
if opens then
  call('HSET', B .. s.span, 'at', now) -- so that the counters of calls have a key, and the key a TTL
  call('PEXPIRE', B .. s.span, RUN_TTL)
end

if not aside then
  local renew = now - t.renewed >= HOUR -- a TTL costs as much as a write
  local ttl = s.notes ~= '' and KEPT_TTL or RUN_TTL

  -- Counters of calls and tools in the new rounds. What was done before the new words belongs to the old span. A retry
  -- is judged by those of the first attempt.
  local names, more, n = {}, {}, 0
  for i = 1, news do
    for what, by in pairs(history[i][4]) do
      if not more[what] then n, names[n + 1] = n + 1, what end
      more[what] = (more[what] or 0) + by
    end
  end
  if retry then
    for what in string.gmatch(t.names, '[^\30]+') do n, names[n + 1] = n + 1, what end
  else
    t.names = table.concat(names, NEXT)
  end
  if n > 0 then
    local key = B .. ((news > 0 and not new_session) and old_span or s.span)
    local fields, write = { 'HMGET', key, 'at' }, { 'HSET', key }
    for i = 1, n do fields[3 + i] = 'c:' .. names[i] end
    local values = call(unpack(fields))
    for i = 1, n do
      local what = names[i]
      local sum = (values[1 + i] or 0) + (more[what] or 0)
      counts[what], write[2 * i + 1], write[2 * i + 2] = sum, fields[3 + i], sum
    end
    if news > 0 then
      call(unpack(write))
      if not values[1] then call('PEXPIRE', key, RUN_TTL) end
    end
    any = true
  end

  -- The facts of the new rounds, and where the ring has become too long, only its newest.
  local added, some = '', 0
  -- What a person has allowed is no loop: the soft ladder begins at its foot, the counters of the budgets go on.
  -- A question that is pending here was answered by these words.
  local allowed = not same and not taken and (verdict == 'approved' or verdict == 'answered'
    or (verdict == 'pending' and t.status == 1))
  if allowed then call('DEL', P .. 'e:' .. run) end
  if rearm or genuine or allowed then added, some = ARGV[2], 1 end -- in front: a repeated answer is repeated in the new span
  if blank then added, some = added .. ARGV[3], some + 1 end
  if news == 1 then
    added, some = added .. ARGV[#ARGV], some + history[1][3]
  elseif news > 1 then
    local facts = { added }
    for i = news, 1, -1 do facts[#facts + 1], some = ARGV[#ARGV - i + 1], some + history[i][3] end
    added = table.concat(facts)
  end
  if some > 0 or (heir_of and ring ~= '') then
    local before = t.held_facts
    ring, t.steps, t.held_facts = ring .. added, t.steps + some, before + some
    if before > 0 and not new_thread and t.held_facts <= RING + SLACK then
      call('APPEND', P .. 'r:' .. run, added)
    else
      local at = 1
      while t.held_facts > RING do -- over one envelope: a byte for its kind, 1, 2 or 4 for the length
        local kind, a, b, c, d = byte(ring, at, at + 4)
        at = at + (kind == 196 and 2 + a or kind == 197 and 3 + a * 256 + b or 5 + ((a * 256 + b) * 256 + c) * 256 + d)
        t.held_facts = t.held_facts - 1
      end
      ring = sub(ring, at)
      call('SET', P .. 'r:' .. run, ring, 'PX', RUN_TTL)
    end
  end

  -- How the run is found again; what it leaves behind is taken out.
  local others = call('SET', P .. 'a:' .. conversation, run, 'PX', LATEST_MS, 'GET')
  if others and others ~= run then
    local all = { run }
    for one in string.gmatch(others, '[^\30]+') do
      if one ~= run and #all < ASKED then all[#all + 1] = one end
    end
    call('SET', P .. 'a:' .. conversation, table.concat(all, NEXT), 'PX', LATEST_MS)
  end
  if t.state == 'failed' or t.state == 'abandoned' or t.answer == 'empty' then
    call('ZREM', P .. 'f:' .. t.conversation, run)
  end
  -- But for the notice of a call that waits: no other run has it, and who asks on with it must meet the call, also after
  -- an attempt that did not take it.
  local left = { 'DEL' }
  for i = 1, t.waits == '' and #links or 0 do
    local given = asked[3 + i]
    if given == MANY then
      call('ZREM', P .. 'm:' .. links[i], run)
    elseif given then
      local _, _, whose = unpacked(given)
      if whose == run then left[#left + 1] = P .. 'n:' .. links[i] end
    end
  end
  if left[2] then call(unpack(left)) end
  if s.latest ~= head .. name then -- the latest thread of a head; the threads there are
    call('HSET', P .. 'd:' .. sid, 'head:' .. head, name)
    if new_thread then call('HSET', P .. 'd:' .. sid, 'thread:' .. name, now) end
    call('PEXPIRE', P .. 'd:' .. sid, ttl)
    s.latest = head .. name
  end
  if t.head ~= '' then
    call('HINCRBY', H, 'open', 1)
    if number then call('HSET', H, 'runs', number) end
    if restart then call('HINCRBY', H, 'ended', -1) end
    if renew or head ~= t.head then
      call('HSET', P .. 'h:' .. head, 'run', run)
      call('PEXPIRE', P .. 'h:' .. head, 2 * RUN_TTL)
      call('PEXPIRE', H, 2 * RUN_TTL)
    end
  end

  if rearm then t.closed, t.answers, t.rearmed = '', 0, t.rearmed + 1 end
  if took then t.taken = true end
  if not same then t.open, t.era = 0, t.era + 1 end -- an attempt at an earlier conversation leaves this one alone
  t.turn, t.state, t.conversation, t.count, t.equal, t.at = turn, 'open', conversation, count, equal, now
  if not same then t.status = 0 end -- what it waited for is here, or the user goes on without
  if t.waits ~= '' then t.answers = 0 end
  t.open, t.live = t.open + 1, t.live + 1
  if user ~= '' then
    if not seen then
      call('SADD', P .. 'v:' .. sid, user)
      call('PEXPIRE', P .. 'v:' .. sid, ttl)
    end
    t.user = user
  end
  if renew then
    t.renewed = now
    for _, key in ipairs({ 'v:' .. sid, 'x:' .. sid, 'd:' .. sid, 'b:' .. sid .. ':p' .. s.span, 'r:' .. run,
      'e:' .. run, 'g:' .. run, 'o:' .. run }) do
      call('PEXPIRE', P .. key, ttl)
    end
    call('ZADD', P .. 'sessions', now, sid)
    call('ZREMRANGEBYSCORE', P .. 'sessions', '-inf', now - RUN_TTL)
    call('PEXPIRE', P .. 'sessions', RUN_TTL)
  end
  save_thread(run, t)
  if new_thread then s.threads = s.threads + 1 end
end
-- Whose run it is, so that it can be erased by its user's name.
local whose = payer ~= '' and string.match(payer, '^[^\31]*\31[^\31]*\31([^\31]+)')
if whose and call('HSETNX', P .. 'd:' .. sid, 'user:' .. whose, now) == 1 then
  call('PEXPIRE', P .. 'd:' .. sid, s.notes ~= '' and KEPT_TTL or RUN_TTL)
end
s.at, s.seen, s.turn, s.tooled = now, now, math.max(turn, s.turn), s.tooled or tooled
if now - s.idle >= MINUTE then -- idle.lua looks at `seen` itself
  s.idle = now
  call('ZADD', P .. 'idle', now, sid)
end
save_session(sid, s)

-- The hold. Its key outlives the lease by far: as long as it is there, a sweeper can give back what is held.
local answer, owner, from = answer_now(1, standing), run, t.head
if aside then owner, from = new_thread and '' or run, '' end
local keyed_by = keyed > 0 and pack(keys) or ''
local holds = sub(ARGV[6], 4 * size + 1)
local held = put(HELD, turn, t.era, aside and 1 or 0, retry and 1 or 0, s.span, #owner, owner, #sid, sid,
  #from, from, #layout, layout, #holds, holds, #keyed_by, keyed_by) .. put('<I4c0ddd', #payer, payer, given, most, price)
call('SET', K, put('<I4', #held) .. held .. answer, 'PX', math.max(7 * 24 * HOUR, 2 * lease))
call('ZADD', P .. 'holds', now + lease, token)
if aside then return reply(answer, '', nil, 0, run) end
return reply(answer, ring, t, 0, run)
