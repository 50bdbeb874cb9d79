-- resolve: whose turn is it? Between state.lua and begin.lua; the three are loaded as one script.
--
-- KEYS[1]  "gp:{<org>}:", so that every key made from it lies in the slot of that org.
-- ARGV[1]  msgpack: what the request says of itself (the locals below, in this order)
-- ARGV[2]  the boundary fact; ARGV[3] the blank fact, both in their envelopes
-- ARGV[4]  the rounds, newest first, read one by one, since the newest is mostly all we need.
--          `older`: there are more that were not sent; begin answers 0 if it cannot do without them. 2: it has answered
--          the digest of the round delivered last, and the newest one was looked at for it
-- ARGV[5]  the names of the budget lines, see state.lua; ARGV[6] their limits, then what each holds, as integers.
--          `kinds` has a letter a line: as in the names, but "t", "q" and "v" for turns of a session, a span, a key, and
--          "r" for a rate, whose refusal is no end. `keys` name the windows of the lines that have a key; `payer`: whose
--          row of the ledger of usage it is; `given`, `most`, `price`: tokens and micro-dollars that it is held at
-- ARGV[7..] the facts of each round in their envelopes, oldest first
--
-- A "run" is <session> 0x1f <thread>: one conversation lineage. Facts are never looked into; digests are compared.
local token, session, thread, head, fresh, links, conversation, count, rounds, older, user, lease, tooled, offset,
  traceparent, spoken, kinds, keys, owner, payer, given, most,
  price = unpacked(ARGV[1])
local never = tooled == 0 -- no turn of any session, whatever that has
if never then tooled = false end
local RETRY_MS, LATEST_MS = 2 * MINUTE, 10 * MINUTE
local STAMP = 1e10 -- scores of links are count * STAMP + time, see settle.lua
local K = P .. 'k:' .. token
local ANSWER = '<i8i8i8i8i8i8i8i8i8i8i8i8i8i8i8i8c24i8i8i8i8i8i8c0c0c0c0c0c0' -- see begin.lua

local asked = { K, P .. 'panic', P .. 'exempt' } -- see label.lua for the last
for i = 1, #links do asked[3 + i] = P .. 'n:' .. links[i] end
asked = call('MGET', unpack(asked))
local panic, exempt = asked[2] and 1 or 0, tonumber(asked[3] or 0)
local clock = call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000) + offset

-- The newest round of this history: its digest, and the index of its message.
local function newest()
  if rounds == 0 then return '', -1 end
  local _, first = cmsgpack.unpack_limit(ARGV[4], 1, 0)
  return first[1], first[2]
end

-- Ring, episodes and ledger are not saved with the answer: they would double what is written for each turn. `since` are
-- the facts that came after the answer.
local function reply(answer, ring, t, since, run)
  if not (t and t.told) then return { answer, ring, t and t.held_facts or 0, since } end
  return { answer, ring, t.held_facts, since,
    call('LRANGE', P .. 'e:' .. run, 0, -1), call('HGETALL', P .. 'g:' .. run) }
end

if asked[1] then -- the token again
  local answer = sub(asked[1], 5 + take('<I4', asked[1]))
  local values = { take(sub(ANSWER, 1, -13), answer) } -- of what is read, 18 and 19 are sizes
  local at, split = values[24], values[24] + values[18]
  local again = sub(answer, at, split - 1) .. SEP .. sub(answer, split, split + values[19] - 1)
  local kept = call('MGET', P .. 't:' .. again, P .. 'r:' .. again)
  local t = read_thread(kept[1])
  return reply(answer, t and kept[2] or '', t, t and t.steps - values[1] or 0, again)
end

-- The run (nil: a new thread of a declared session), the number of a new derived run, and whether it is one that we
-- ended and that is started again.
local run, number, restart, search, grown
if session ~= '' and thread ~= '' then
  run = session .. SEP .. thread
elseif not fresh and asked[4] and asked[4] ~= MANY and byte(links[1]) ~= 42 then
  local long, _, whose = unpacked(asked[4]) -- a plain turn: `by_link` finds the same
  local stands = long + 2 >= count or select(2, newest()) <= long -- else it may be what another run did
  if stands and long < count and (session == '' or sub(whose, 1, #session + 1) == session .. SEP) then
    run = whose
  end
end

if not run or (thread ~= '' and not fresh) then
  local function thread_of(run) return read_thread(call('GET', P .. 't:' .. run)) end

  local function mine(run)
    return session == '' or sub(run, 1, #session + 1) == session .. SEP
  end

  -- Who was given this round? Several: the longest history that is shorter than ours, else the latest. A member is
  -- taken out when its successor is admitted, so that equal runs side by side each find their own.
  -- `spoken` (a reply without calls, then the user's words): the first link is that of head and text alone, which the
  -- examples of a prompt share with answers given to others of its kind. Only a history shorter than ours counts there.
  -- `upto`: only so many of them.
  -- `far`: the links that hold without the head ("*"), for heads that nothing is known of: a compacted conversation.
  -- Among runs of known heads they would lead from one task into another that was given the same words.
  -- `anyone`: in whatever session; a client that goes on under another id carries its conversation with it.
  -- Second value: how long its history was then.
  local function by_link(far, anyone, upto)
    local nth = 0
    for i = 1, #links do
      if (byte(links[i]) == 42) == far and nth < (upto or 9) then
        nth = nth + 1
        local given, any = asked[3 + i], not (spoken and nth == 1)
        if given == MANY then
          local key, some = P .. 'm:' .. links[i], (session == '' or anyone) and 1 or 64
          local below = string.format('(%.0f', count * STAMP)
          local fit = call('ZREVRANGEBYSCORE', key, below, '-inf', 'WITHSCORES', 'LIMIT', 0, some)
          for n = 1, #fit, 2 do
            if anyone or mine(fit[n]) then return fit[n], math.floor(fit[n + 1] / STAMP) end
          end
          local all, latest, at = any and call('ZREVRANGE', key, 0, 63, 'WITHSCORES') or {}, nil, -1
          for n = 1, #all, 2 do
            if (anyone or mine(all[n])) and all[n + 1] % STAMP > at then latest, at = all[n], all[n + 1] % STAMP end
          end
          if latest then return latest, count end
        elseif given then
          local long, _, run = unpacked(given)
          if (any or long < count) and (anyone or mine(run)) then return run, long end
        end
      end
    end
  end

  local function newest_askers() return string.gmatch(call('GET', P .. 'a:' .. conversation) or '', '[^\30]+') end

  -- Who asked exactly this? f: holds runs whose last attempt at it came to nothing (failed, abandoned, empty answer).
  local function by_digest()
    local since = fresh and now - RETRY_MS or '-inf'
    for _, run in ipairs(call('ZREVRANGEBYSCORE', P .. 'f:' .. conversation, '+inf', since, 'LIMIT', 0, 64)) do
      if mine(run) then return run end
    end
    if fresh then return nil end
    local crowded
    for run in newest_askers() do
      if mine(run) then
        local t = thread_of(run)
        if t and t.conversation == conversation then
          if t.state ~= 'open' or t.open < 2 then return run end
          crowded = crowded or run
        end
      end
    end
    return crowded
  end

  -- Who asked exactly this last, and has moved on since: a client that takes back a round has the run that it had.
  local function asked_before()
    if spoken then return nil end -- the examples of a prompt are asked by every run
    for run in newest_askers() do
      if mine(run) and thread_of(run) then return run end
    end
  end

  -- The run of this head that we ended a moment ago, though others are younger or did the same: what we end a run with
  -- is dropped or rewritten by clients, and what some go on with nobody gave them. It leaves no link, all else does.
  local function ended_by_us(run, at)
    local t = run and not spoken and now - at <= RETRY_MS and thread_of(run)
    return t and (t.closed ~= '' or t.answer == 'own') and count > t.count and run or nil
  end

  local function ended_here()
    if session == '' then return ended_by_us(unpack(call('HMGET', P .. 'h:' .. head, 'ended_run', 'ended_at'))) end
    local latest = call('HGET', P .. 'd:' .. session, 'head:' .. head)
    local run = latest and session .. SEP .. latest
    local t = run and thread_of(run)
    return t and ended_by_us(run, t.at)
  end

  -- By its links, but for another run that did the same at another place of its history: its texts are not ours, and
  -- what the provider has seen would not come again. `own`: by what is most specific; it may have been given its round
  -- last all the same, to a client that puts more in front of it.
  local function by_place(own)
    local run, long = by_link(false, false, own and 1 or nil)
    if not run then
      return not own and links[2] and byte(links[2]) ~= 42 and asked_before() or nil -- ids tell it from equal ones
    end
    local digest, index = newest()
    local placed = index < long or byte(links[1]) == 45 -- "-": of an empty answer, whose link says its place
    if placed and long < count then return run end
    local ids = own and links[2] and byte(links[2]) ~= 42
    local t = (own or index <= long) and thread_of(run)
    local last = t and t.delivered == digest
    if last and (ids or spoken or index <= long) then return run end
    local before = not last and asked_before()
    if before or spoken then return before end -- the same words at another place may be anybody's
    return not ids and ended_here() or run -- what was done, too, where a run has just been ended
  end

  -- May the latest run of a head be meant where nothing else tells? The examples in a prompt are nobody's history. Only
  -- our own ending leaves no link, and then the conversation has grown.
  local function goes_on(t)
    return not spoken or (t ~= nil and (t.closed ~= '' or t.answer == 'own') and count > t.count)
  end

  -- A start that says more than the last one of its head, which was answered and not taken up: the agent does not
  -- append what it is answered. It is a new run all the same; the turn says so. `grown`: how long that one was.
  local function grows(t)
    if t and t.state == 'answered' and t.delivered ~= '' and count > math.max(2, t.count)
      and user ~= '' and user ~= t.user and now - t.at <= LATEST_MS then
      grown = t.count
    end
  end

  -- A run without a declared session. Second value: the number of a new run; third: started again after our own ending.
  local function derive()
    local runs, latest, open, ended, ended_at, ended_run =
      unpack(call('HMGET', P .. 'h:' .. head, 'runs', 'run', 'open', 'ended', 'ended_at', 'ended_run'))
    local run = not (fresh or latest) and by_link(true)
    if run then return run end
    if not fresh and latest then
      run = ended_run ~= latest and ended_by_us(ended_run, ended_at)
      if run then return run end
      local t = thread_of(latest)
      local waits = t and (t.waits ~= '' or t.status > 0) -- a person may take longer
      if t and (waits or now - t.at <= LATEST_MS) and goes_on(t) then return latest end
      grows(t)
    end
    if fresh and tonumber(ended or 0) > 0 and now - ended_at <= RETRY_MS then
      local t = thread_of(ended_run)
      if t and tonumber(open or 0) <= t.live then return ended_run, nil, true end
    end
    if fresh and latest and count > 2 then grows(thread_of(latest)) end -- two messages are a plain start
    local number, name = tonumber(runs or 0), nil
    repeat
      number = number + 1
      name = owner .. 'd-' .. sub(head, 1, 12) .. '-' .. number
    until call('EXISTS', P .. 's:' .. name) == 0
    return name .. SEP .. 'main', number
  end

  -- A client that sends its only request again after the cut has to meet the cut, not a new thread; and where a call of
  -- it waits for a person, who is not asked twice, that one.
  local function ended_moment_ago()
    for run in newest_askers() do
      if mine(run) then
        local t = thread_of(run)
        local over = t and (t.closed ~= '' or (t.waits ~= '' and t.open == 0))
        if over and t.conversation == conversation and now - t.at <= RETRY_MS then return run end
      end
    end
  end

  function search(anyone)
    if anyone then return by_link(false, true) end
    -- What was given by its ids, who asked exactly this, then what was done: another run may have done the same.
    local run = (not fresh and by_place(true)) or by_digest() or (not fresh and by_place(false))
    if run then return run end
    if session == '' then return derive() end
    if fresh then
      local ended = ended_moment_ago()
      local latest = not ended and count > 2 and call('HGET', P .. 'd:' .. session, 'head:' .. head)
      if latest then grows(thread_of(session .. SEP .. latest)) end
      return ended
    end
    local latest = call('HGET', P .. 'd:' .. session, 'head:' .. head)
    run = not latest and by_link(true)
    if run then return run end
    if not latest then return nil end
    latest = session .. SEP .. latest
    local t = spoken and thread_of(latest) or nil
    if goes_on(t) then return latest end
    grows(t)
  end
  if not run then run, number, restart = search() end
end
