-- tally: how many runs stand how: those with a turn in the last quarter of an hour, and those that wait for people.
--
-- Follows state.lua and look.lua in the same script. A page a call, so that no turn waits long for it.
-- KEYS[1]  "gp:{<org>}:"
-- ARGV[1]  from which place; ARGV[2] how many; ARGV[3] clock offset
-- Answers  { how many were looked at, active, paused, need_human, waiting }; the first page has those that wait, too
local STATES, WAITING = { active = 2, paused = 3, need_human = 4, waiting = 5 }, 256
local clock = call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000) + tonumber(ARGV[3])
local answer = { 0, 0, 0, 0, 0 }

local function add(state)
  local place = STATES[state]
  if place then answer[place] = answer[place] + 1 end
end

-- As `stands` says it of a run that nobody was ever asked about, at the price of one look at its main thread.
local function simply(sid, s)
  if s.closed ~= '' then return 'closed' end
  local t = read_thread(call('GET', P .. 't:' .. sid .. SEP .. s.main))
  return t and t.closed ~= '' and 'closed' or 'active'
end

local first = tonumber(ARGV[1])
for _, sid in ipairs(call('ZREVRANGE', P .. 'idle', first, first + ARGV[2] - 1)) do
  local raw = call('GET', P .. 's:' .. sid)
  local s = read_session(raw)
  answer[1] = answer[1] + 1
  if s then
    local asked = s.notes ~= '' or call('ZSCORE', P .. 'asked', sid)
    add(asked and stands(sid, s, raw, now)[3] or simply(sid, s))
  end
end
if first == 0 then
  for _, sid in ipairs(call('ZREVRANGE', P .. 'asked', 0, WAITING - 1)) do
    if not call('ZSCORE', P .. 'idle', sid) then
      local raw = call('GET', P .. 's:' .. sid)
      local s = read_session(raw)
      local state = s and stands(sid, s, raw, now)[3]
      if state ~= 'active' then add(state) end
    end
  end
end
return answer
