-- settle: give back what a token holds, count what was used, keep what the answer was. Safe to run twice: without a
-- hold it does nothing. The sweeper runs it too, for tokens past their lease: then the use is the hold.
--
-- Follows state.lua in the same script, and goes on in handover.lua and handed.lua where people are asked for.
--
-- KEYS[1]  "gp:{<org>}:"
-- ARGV[1]  msgpack: the locals below, in this order. `status`, `waits`: see state.lua; `pause`: who pauses the session
--          (loop, budget), "" = nobody. `ledger` are the anchors of its values. `charge`: see account.lua. `later`: of an
--          answer that is made in the background its name, and, while nobody knows what it used, how that is priced
-- ARGV[2]  the record of the turn ("" = none); ARGV[3] the facts in their envelopes; ARGV[4..] episodes, then ledger
--          values
--
-- Answers {} when nothing was held, else {session, thread, turn}.
local token, session, thread, outcome, answer, spent, delivered, links, facts, episodes, ledger, close, close_session,
  count, offset, swept, status, waits, pause, pause_why, charge, later = unpacked(ARGV[1])
local EPISODES, LEDGER, RECORDS, SLACK, LINKED = 16, 64, 256, 64, 256
local LINK_TTL, SAME_TTL = 2 * HOUR, 10 * MINUTE
local STAMP = 1e10 -- a link's score is count * STAMP + time: the count decides, among equals the latest

local clock = call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000) + offset
local K, HOLDS = P .. 'k:' .. token, P .. 'holds'
if swept then
  local deadline = call('ZSCORE', HOLDS, token)
  if not deadline or tonumber(deadline) > now then return {} end -- settled or renewed meanwhile
end
local run = session .. SEP .. thread -- as the caller says; the token knows
local kept = call('MGET', K, P .. 's:' .. session, P .. 't:' .. run) -- a token of another kind (version 0.1) is none
call('ZREM', HOLDS, token)
if not kept[1] then return {} end
local hold = take('<I4c0', kept[1])
if hold == '' then return {} end
call('SET', K, put('<I4', 0) .. sub(kept[1], 5 + #hold), 'PX', ANSWER_TTL)
local turn, era, aside, retry, span, owner, sid, head, layout, holds, keys, behind = take(HELD, hold)
local payer, given, most, price = '', 0, 0, 0
if behind <= #hold then payer, given, most, price = take('<I4c0ddd', hold, behind) end
aside, retry = aside == 1, retry == 1
if owner ~= run or sid ~= session then
  run = owner
  kept = call('MGET', K, P .. 's:' .. sid, P .. 't:' .. run)
end
local s, t = read_session(kept[2]), not aside and read_thread(kept[3]) or nil

-- Made in the background (see background.lua): what was said of it meanwhile counts, not what was held or guessed.
local note, uses = swept and call('GET', P .. 'early:' .. token) or later[1], nil
if note then
  note = P .. 'later:' .. note
  local said = (swept or later[2]) and call('HMGET', note, 'spent', 'charge') or {}
  if said[1] then
    for dimension, use in pairs(unpacked(said[1])) do spent[dimension] = use end
    charge = unpacked(said[2])
  elseif swept or later[2] then
    uses = {}
  end
  call('HSET', note, 'state', uses and 'charged' or 'settled', 'sid', sid)
  if later[2] then call('HSET', note, 'about', later[2]) end
  call('PEXPIRE', note, KEPT_TTL)
end

-- Not below 0: the counters may have been lost with the server's last second.
local names = { unpacked(layout) }
local amounts = { take('<' .. string.rep('i8', #names), holds) }
local size = s and #s.counters / 8 or 0
local integers = '<' .. string.rep('i8', size)
local values, place, nth = s and { take(integers, s.counters) } or {}, nil, 0
if s and sub(s.layout, 1, #layout) ~= layout then -- asked by other lines meanwhile
  place = {}
  for i, name in ipairs({ unpacked(s.layout) }) do place[name] = i end
end
for i = 1, #names do
  local name, held = names[i], amounts[i]
  local scope, dimension = byte(name), sub(name, 3)
  local use = spent[dimension] or swept and held or 0
  if dimension == 'turns' and (retry or aside) then use, held = 0, 0 end
  if uses then uses[i] = use end
  if scope == 115 or (scope == 112 and s and s.span == span) then -- s, p: of the span held, if it is there still
    local at = i
    if place then at = place[name] end
    local u = at and 2 * at - 1 or 0
    if values[u + 1] then values[u], values[u + 1] = values[u] + use, math.max(0, values[u + 1] - held) end
  elseif scope == 119 then -- w
    nth = nth + 1
    local window = unpacked(keys)[nth]
    local key = P .. 'w:' .. window
    local was = call('HMGET', key, 'u:' .. dimension, 'h:' .. dimension)
    if dimension == 'concurrent_requests' then use = 0 end -- over with its hold
    call('HSET', key, 'u:' .. dimension, string.format('%.0f', (was[1] or 0) + use),
      'h:' .. dimension, string.format('%.0f', math.max(0, (was[2] or 0) - held)))
    if sub(window, 1, 7) == 't:user:' then
      call('PEXPIRE', key, USER_TTL)
    elseif not (was[1] and was[2]) and sub(window, 1, 2) ~= 't:' then
      call('PEXPIRE', key, string.find(window, '^[mh]:') and RATE_TTL or WINDOW_TTL)
    end
  end
end
if s then s.counters = put(integers, unpack(values, 1, size)) end
if swept and #charge == 0 then charge = { 1, given, 0, 0, most, 0, price, 1, 0, 0, 0, 0, 0, 1 } end -- as it was held
if payer ~= '' and #charge > 0 then account(now, payer, charge) end
if uses then
  call('HSET', note, 'span', string.format('%.0f', span), 'layout', layout, 'keys', keys, 'uses', pack(uses),
    'payer', payer, 'charge', pack(charge), 'at', string.format('%.0f', now))
end

-- Whether people are asked for from now on: then all that finds the run again is kept for so long.
local asks = not aside and (status > 0 or waits ~= '' or pause ~= '')

-- Append what is new and bound the list; a list just made has no TTL yet.
local function append(key, from, some, bound, slack)
  local length = 0
  for i = from, from + some - 1 do length = call('RPUSH', key, ARGV[i]) end
  if length > bound + slack then call('LTRIM', key, -bound, -1) end
  if length == some then call('PEXPIRE', key, RUN_TTL) end
end

-- Of a session that is gone (erased while this ran) only what it spent is kept.
if not s then head = '' end

-- A round was given to one run, mostly: then a string will do.
if s and run ~= '' and #links > 0 then
  local one, ttl = pack(count, now, run), asks and KEPT_TTL or LINK_TTL
  for i = 1, #links do
    local given = P .. 'n:' .. links[i]
    local old = call('SET', given, one, 'PX', ttl, 'GET')
    local other
    if old and old ~= MANY then
      local long, at, whose = unpacked(old)
      if whose ~= run then
        other = whose
        call('ZADD', P .. 'm:' .. links[i], string.format('%.0f', long * STAMP + at % STAMP), other)
      end
    end
    if old == MANY or other then
      local key = P .. 'm:' .. links[i]
      call('ZADD', key, string.format('%.0f', count * STAMP + now % STAMP), run)
      call('ZREMRANGEBYRANK', key, 0, -LINKED - 1)
      call('PEXPIRE', key, ttl)
      call('SET', given, MANY, 'PX', ttl)
    end
  end
end

if s and t then
  if facts > 0 then
    if t.held_facts > 0 and call('APPEND', P .. 'r:' .. run, ARGV[3]) > #ARGV[3] then
      t.held_facts = t.held_facts + facts
    else -- the first ones, or the others were lost
      call('SET', P .. 'r:' .. run, ARGV[3], 'PX', RUN_TTL)
      t.held_facts = facts
    end
    t.steps = t.steps + facts
  end
  if episodes > 0 then append(P .. 'e:' .. run, 4, episodes, EPISODES, 0) end
  if #ledger > 0 then -- the first text at an anchor stays: it has to be repeated byte for byte
    for i, anchor in ipairs(ledger) do
      if call('HSETNX', P .. 'g:' .. run, anchor, ARGV[3 + episodes + i]) == 1 then
        call('RPUSH', P .. 'o:' .. run, anchor)
      end
    end
    while call('LLEN', P .. 'o:' .. run) > LEDGER do
      call('HDEL', P .. 'g:' .. run, call('LPOP', P .. 'o:' .. run))
    end
    call('PEXPIRE', P .. 'g:' .. run, RUN_TTL)
    call('PEXPIRE', P .. 'o:' .. run, RUN_TTL)
  end
  t.told = t.told or episodes > 0 or #ledger > 0
  -- Where the conversation stands now. Attempts at an earlier conversation of the thread change nothing of it.
  t.at, t.live = now, math.max(0, t.live - 1)
  if t.era == era then
    local nothing = answer == 'empty'
    t.open = math.max(0, t.open - 1)
    if outcome == 'answered' then
      t.state, t.answer, t.delivered, t.taken = outcome, answer, delivered, false
      if waits == '' and t.waits ~= '' then -- a call that was approved waits until a turn has taken it, not only seen it
        local found = call('HMGET', P .. 'approval:' .. t.waits, 'state', 'token', 'expires_ms')
        -- Also of the turn that has taken it: the next one looks whether the call has arrived.
        if found[1] == 'approved' and ((found[2] or '') == '' or found[2] == token) then waits = t.waits end
        -- Asked meanwhile by another turn of the thread. A question (status 1) ends with the user's next words.
        if found[1] == 'pending' and t.status ~= 1 and now < tonumber(found[3]) then waits = t.waits end
      end
      t.answered, t.status, t.waits = now, status, waits
    elseif t.open == 0 and t.state ~= 'answered' then
      t.state, t.answer, nothing = outcome, '', true
    end
    if nothing then
      local F = P .. 'f:' .. t.conversation
      call('ZADD', F, now, run)
      call('ZREMRANGEBYRANK', F, 0, -LINKED - 1)
      call('PEXPIRE', F, SAME_TTL)
    end
  end
  if close ~= '' then t.closed, t.answers = close, 0 end
  save_thread(run, t, not asks)
end

-- A derived run is done with this attempt; an ending of ours may be answered by a client that starts again.
if head ~= '' then
  local H = P .. 'h:' .. head
  if call('HINCRBY', H, 'open', -1) < 0 then -- lost meanwhile
    call('HSET', H, 'open', 0)
    call('PEXPIRE', H, 2 * RUN_TTL)
  end
  if answer == 'own' and outcome == 'answered' then
    call('HINCRBY', H, 'ended', 1)
    call('HSET', H, 'ended_at', now, 'ended_run', run)
    call('PEXPIRE', H, 2 * RUN_TTL)
  end
end

-- A request that is no turn, and was no session's: nobody comes back to it. Names that clients give have no blank.
if s and aside and string.find(sid, 'aside ', 1, true) then
  call('DEL', P .. 's:' .. sid, P .. 'd:' .. sid, P .. 'b:' .. sid .. ':p' .. s.span)
  call('ZREM', P .. 'idle', sid)
  return { sid, 'aside', turn }
end

if s and ARGV[2] ~= '' then append(P .. 'x:' .. sid, 2, 1, RECORDS, SLACK) end
if s then
  if close_session and s.closed ~= 'operator' then s.closed, s.answers = close ~= '' and close or 'session', 0 end
  if not swept then
    s.seen = now
    if now - s.idle >= MINUTE then
      s.idle = now
      call('ZADD', P .. 'idle', now, sid)
    end
  end
  save_session(sid, s, true)
end
local _, at = string.find(run, SEP, 1, true)
local done = { sid, at and sub(run, at + 1) or 'aside', turn }
if not (asks and s) then return done end -- what follows is in handover.lua and handed.lua
