-- settle: give back what a token holds, count what was used, keep what the answer was. Safe to run twice: without a
-- hold it does nothing. The sweeper runs it too, for tokens past their lease: then the use is the hold.
--
-- KEYS[1]  "gp:{<org>}:"
-- ARGV[1]  msgpack: the locals below, in this order. `ledger` are the anchors of its values
-- ARGV[2]  the record of the turn ("" = none); ARGV[3..] facts, then episodes, then ledger values
--
-- Answers {} when nothing was held, else {session, thread, turn}.
local P = KEYS[1]
local token, outcome, answer, spent, delivered, links, facts, episodes, ledger, close, close_session, count, offset,
  swept = unpack(cmsgpack.unpack(ARGV[1]))
local call = redis.call
local RING, EPISODES, LEDGER, RECORDS, LINKED = 64, 16, 64, 256, 256
local HOUR = 3600000
local RUN_TTL, LINK_TTL, SAME_TTL, ANSWER_TTL = 25 * HOUR, 2 * HOUR, HOUR / 6, HOUR / 30
local WINDOW_TTL = 35 * 24 * HOUR
local STAMP = 1e10 -- a link's score is count * STAMP + time: the count decides, among equals the latest

local clock = call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000) + offset
local K, HOLDS = P .. 'k:' .. token, P .. 'holds'
if swept then
  local deadline = call('ZSCORE', HOLDS, token)
  if not deadline or tonumber(deadline) > now then return {} end -- settled or renewed meanwhile
end
local saved = call('HGET', K, 'held')
call('ZREM', HOLDS, token)
if not saved then return {} end
local run, sid, turn, era, aside, retry, head, held = unpack(cmsgpack.unpack(saved))
call('HDEL', K, 'held')
call('PEXPIRE', K, ANSWER_TTL)

for i = 1, #held, 2 do
  local key, kept = P .. held[i], held[i + 1]
  local fields, none, write = {}, true, {}
  for n = 1, #kept, 2 do fields[n], fields[n + 1] = 'u:' .. kept[n], 'h:' .. kept[n] end
  local values = call('HMGET', key, unpack(fields))
  for n = 1, #kept, 2 do
    local dimension, hold = kept[n], kept[n + 1]
    none = none and not (values[n] or values[n + 1])
    local use = swept and hold or spent[dimension] or 0
    if dimension == 'turns' and (retry or aside) then use = 0 end
    if use ~= 0 then write[#write + 1], write[#write + 2] = 'u:' .. dimension, tonumber(values[n] or 0) + use end
    if hold > 0 then -- not below 0: the counters may have been lost with the server's last second
      write[#write + 1], write[#write + 2] = 'h:' .. dimension, math.max(0, tonumber(values[n + 1] or 0) - hold)
    end
  end
  if #write > 0 then
    call('HSET', key, unpack(write))
    if none then call('PEXPIRE', key, string.sub(held[i], 1, 2) == 'w:' and WINDOW_TTL or RUN_TTL) end
  end
end

-- Append what is new and bound the list; a list just made has no TTL yet.
local function append(key, from, some, bound)
  if some == 0 then return end
  local length = 0
  for i = from, from + some - 1 do length = call('RPUSH', key, ARGV[i]) end
  if length > bound then call('LTRIM', key, -bound, -1) end
  if length == some then call('PEXPIRE', key, RUN_TTL) end
end

-- The first text at an anchor stays, whatever overlapping turns say later: it has to be repeated byte for byte.
local function note(from)
  for i, anchor in ipairs(ledger) do
    if call('HSETNX', P .. 'g:' .. run, anchor, ARGV[from + i - 1]) == 1 then
      call('RPUSH', P .. 'o:' .. run, anchor)
    end
  end
  if #ledger == 0 then return end
  while call('LLEN', P .. 'o:' .. run) > LEDGER do
    call('HDEL', P .. 'g:' .. run, call('LPOP', P .. 'o:' .. run))
  end
  call('PEXPIRE', P .. 'g:' .. run, RUN_TTL)
  call('PEXPIRE', P .. 'o:' .. run, RUN_TTL)
end

-- Where the conversation stands now. Attempts at an earlier conversation of the thread change nothing of it.
local function conclude(t)
  t.at, t.live, t.steps = now, math.max(0, t.live - 1), t.steps + facts
  if t.era == era then
    local nothing = answer == 'empty'
    t.open = math.max(0, t.open - 1)
    if outcome == 'answered' then
      t.state, t.answer, t.delivered, t.taken = outcome, answer, delivered, false
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
  call('SET', P .. 't:' .. run, cmsgpack.pack(t), 'PX', RUN_TTL)
end

local function load(key)
  local raw = call('GET', P .. key)
  return raw and cmsgpack.unpack(raw) or nil
end

if run ~= '' then
  if outcome == 'answered' then
    local score = string.format('%.0f', count * STAMP + now % STAMP)
    for _, link in ipairs(links) do
      call('ZADD', P .. 'l:' .. link, score, run)
      call('ZREMRANGEBYRANK', P .. 'l:' .. link, 0, -LINKED - 1)
      call('PEXPIRE', P .. 'l:' .. link, LINK_TTL)
    end
  end
  local t = not aside and load('t:' .. run)
  if t then
    append(P .. 'r:' .. run, 3, facts, RING)
    append(P .. 'e:' .. run, 3 + facts, episodes, EPISODES)
    note(3 + facts + episodes)
    conclude(t)
  end
end

-- A derived run is done with this attempt; an ending of ours may be answered by a client that starts again.
if head ~= '' then
  local H = P .. 'h:' .. head
  local open = call('HGET', H, 'open')
  if open then call('HSET', H, 'open', math.max(0, tonumber(open) - 1)) end
  if answer == 'own' and outcome == 'answered' then
    call('HINCRBY', H, 'ended', 1)
    call('HSET', H, 'ended_at', now, 'ended_run', run)
    call('PEXPIRE', H, 2 * RUN_TTL)
  end
end

if ARGV[2] ~= '' then append(P .. 'x:' .. sid, 2, 1, RECORDS) end
if close_session then
  local session = load('s:' .. sid)
  if session then
    session.closed, session.answers = close ~= '' and close or 'session', 0
    call('SET', P .. 's:' .. sid, cmsgpack.pack(session), 'PX', RUN_TTL)
  end
end
if not swept then call('ZADD', P .. 'idle', now, sid) end
local _, at = string.find(run, '\31', 1, true)
return { sid, at and string.sub(run, at + 1) or 'aside', turn }
