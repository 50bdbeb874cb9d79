-- resolve: whose turn is it? First half of begin; the two files are loaded as one script.
--
-- KEYS[1]  "gp:{<org>}:", so that every key made from it lies in the slot of that org.
-- ARGV[1]  msgpack: what the request says of itself (the locals below, in this order)
-- ARGV[2]  the boundary fact; ARGV[3] the blank fact
-- ARGV[4]  the rounds, newest first: a msgpack array read element by element, since the newest is mostly all we need.
--          `older`: there are more that were not sent; begin answers 0 if it cannot do without them
-- ARGV[5..] the facts of the rounds, oldest first
--
-- A "run" is <session> 0x1f <thread>: one conversation lineage. Facts are never looked into; digests are compared.
-- What is known of a session (s:) and of a thread (t:) is one msgpack map each: a read and a write instead of a dozen
-- hash fields (measured: a third of begin), and every write renews the TTL.
local P = KEYS[1]
local token, session, thread, head, fresh, links, conversation, count, rounds, older, user, lines, lease, tooled,
  offset, traceparent, spoken = unpack(cmsgpack.unpack(ARGV[1]))
local call = redis.call
local SEP = '\31'
local MINUTE, HOUR = 60000, 3600000
local RETRY_MS, LATEST_MS = 2 * MINUTE, 10 * MINUTE
local STAMP = 1e10 -- scores of links are count * STAMP + time, see settle.lua

local function split(run)
  local at = string.find(run, SEP, 1, true)
  return string.sub(run, 1, at - 1), string.sub(run, at + 1)
end

local function load(key)
  local raw = call('GET', P .. key)
  return raw and cmsgpack.unpack(raw) or nil
end

-- Ring, episodes and ledger are not saved with the answer: they would double what is written for each turn. A second
-- call with the token reads them again, and `steps` says which part of the ring there was at the first.
local function reply(answer, run, again)
  local ring = call('LRANGE', P .. 'r:' .. run, 0, -1)
  if again then
    local t = load('t:' .. run)
    for _ = answer[11] + 1, t and t.steps or 0 do ring[#ring] = nil end
  end
  answer[#answer + 1] = ring
  answer[#answer + 1] = call('LRANGE', P .. 'e:' .. run, 0, -1)
  answer[#answer + 1] = call('HGETALL', P .. 'g:' .. run)
  return answer
end

local K = P .. 'k:' .. token
local saved = call('HGET', K, 'answer')
if saved then
  local answer = cmsgpack.unpack(saved)
  return reply(answer, answer[1] .. SEP .. answer[2], true)
end
local clock = call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000) + offset

local function mine(run)
  return session == '' or string.sub(run, 1, #session + 1) == session .. SEP
end

-- Who was given this round? Several: the longest history that is shorter than ours, else the latest. A member is
-- taken out when its successor is admitted, so that equal runs side by side each find their own.
-- `spoken` (a reply without calls, then the user's words): the first link is that of head and text alone, which the
-- examples of a prompt share with answers given to others of its kind. Only a history shorter than ours counts there.
-- `far`: the links that hold without the head ("*"), for heads that nothing is known of: a compacted conversation.
-- Among runs of known heads they would lead from one task into another that was given the same words.
-- `anyone`: in whatever session; a client that goes on under another id carries its conversation with it.
local function by_link(far, anyone)
  local some = (session == '' or anyone) and 1 or 64
  local wanted = {}
  for _, link in ipairs(links) do
    if (string.sub(link, 1, 1) == '*') == far then wanted[#wanted + 1] = link end
  end
  for i, link in ipairs(wanted) do
    local key = P .. 'l:' .. link
    local fit = call('ZREVRANGEBYSCORE', key, string.format('(%.0f', count * STAMP), '-inf', 'LIMIT', 0, some)
    for _, run in ipairs(fit) do
      if anyone or mine(run) then return run end
    end
    local all, latest, at = spoken and i == 1 and {} or call('ZREVRANGE', key, 0, 63, 'WITHSCORES'), nil, -1
    for n = 1, #all, 2 do
      if (anyone or mine(all[n])) and all[n + 1] % STAMP > at then latest, at = all[n], all[n + 1] % STAMP end
    end
    if latest then return latest end
  end
end

-- Who asked exactly this? f: holds runs whose last attempt at it came to nothing (failed, abandoned, empty answer).
local function by_digest()
  local since = fresh and now - RETRY_MS or '-inf'
  for _, run in ipairs(call('ZREVRANGEBYSCORE', P .. 'f:' .. conversation, '+inf', since, 'LIMIT', 0, 64)) do
    if mine(run) then return run end
  end
  if fresh then return nil end
  local crowded
  for _, run in ipairs(call('ZREVRANGE', P .. 'q:' .. conversation, 0, 15)) do
    if mine(run) then
      local t = load('t:' .. run)
      if t and t.conversation == conversation then
        if t.state ~= 'open' or t.open < 2 then return run end
        crowded = crowded or run
      end
    end
  end
  return crowded
end

-- May the latest run of a head be meant where nothing else tells? The examples in a prompt are nobody's history. Only
-- our own ending leaves no link, and then the conversation has grown.
local function goes_on(t)
  return not spoken or (t ~= nil and (t.closed or t.answer == 'own') and count > t.count)
end

-- A run without a declared session. Second value: the number of a new run; third: started again after our own ending.
local function derive()
  local run = (not fresh and by_link(false)) or by_digest()
  if run then return run end
  local runs, latest, open, ended, ended_at, ended_run =
    unpack(call('HMGET', P .. 'h:' .. head, 'runs', 'run', 'open', 'ended', 'ended_at', 'ended_run'))
  run = not (fresh or latest) and by_link(true)
  if run then return run end
  if not fresh and latest then
    local t = load('t:' .. latest)
    if t and now - t.at <= LATEST_MS and goes_on(t) then return latest end
  end
  if fresh and tonumber(ended or 0) > 0 and now - ended_at <= RETRY_MS then
    local t = load('t:' .. ended_run)
    if t and tonumber(open or 0) <= t.live then return ended_run, nil, true end
  end
  local number, name = tonumber(runs or 0), nil
  repeat
    number = number + 1
    name = 'd-' .. string.sub(head, 1, 12) .. '-' .. number
  until call('EXISTS', P .. 's:' .. name) == 0
  return name .. SEP .. 'main', number
end

-- A client that sends its only request again after the cut has to meet the cut, not a new thread.
local function cut_moment_ago()
  for _, run in ipairs(call('ZREVRANGE', P .. 'q:' .. conversation, 0, 15)) do
    if mine(run) then
      local t = load('t:' .. run)
      if t and t.closed and t.conversation == conversation and now - t.at <= RETRY_MS then return run end
    end
  end
end

-- A thread of a declared session; nil: a new one.
local function in_session()
  if thread ~= '' then return session .. SEP .. thread end
  local run = (not fresh and by_link(false)) or by_digest()
  if run then return run end
  if fresh then return cut_moment_ago() end
  local latest = call('HGET', P .. 'd:' .. session, 'head:' .. head)
  run = not latest and by_link(true)
  if run then return run end
  latest = latest and session .. SEP .. latest
  return latest and goes_on(spoken and load('t:' .. latest) or nil) and latest or nil
end

local run, number, restart
if session == '' then run, number, restart = derive() else run = in_session() end
