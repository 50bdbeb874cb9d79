-- extend: one more attempt of a turn that is under way. All of its hold is added to that of the token, or nothing;
-- settle gives back the sum. The turn, its request and its calls were held when it began. The lease stays as it is.
-- Safe to run twice: `attempt` is new for each.
--
-- Follows state.lua in the same script.
-- KEYS[1]  "gp:{<org>}:"
-- ARGV[1]  msgpack: the locals below. ARGV[2] names, ARGV[3] limits and holds of the lines, as for begin
--
-- A line that the turn did not begin with does not bind it. A run that was paused or closed meanwhile has no room.
-- Answers 1 if there is room, -n if the n-th line has none, 0 if the turn or its run is over.
local token, attempt, offset = unpacked(ARGV[1])
local K = P .. 'k:' .. token
local clock = call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000) + offset
local known = call('MGET', P .. 'extended:' .. attempt, K, P .. 'panic')
if known[1] then return 1 end
local hold = known[2] and take('<I4c0', known[2]) or ''
if hold == '' then return 0 end -- settled meanwhile
local turn, era, aside, retry, span, owner, sid, head, layout, held, keyed_by, behind = take(HELD, hold)
local s = read_session(call('GET', P .. 's:' .. sid))
if not s then return 0 end
local notes = s.notes ~= '' and unpacked(s.notes) or {}
if not known[3] then
  local t = owner ~= '' and read_thread(call('GET', P .. 't:' .. owner))
  if s.closed ~= '' or notes.paused or (t and t.closed ~= '') then return 0 end
end

local names, wanted = { unpacked(layout) }, { unpacked(ARGV[2]) }
local integers = '<' .. string.rep('i8', #names)
local holds = { take(integers, held) }
local amounts = { take('<' .. string.rep('i8', 2 * #wanted), ARGV[3]) }
local keys = keyed_by ~= '' and unpacked(keyed_by) or {}
local extra = notes.extra or {}

-- Where each line of the token is counted: in the session by its place, of a key by the key. Names of keys may repeat.
local kept, place, mine, nth = { unpacked(s.layout) }, {}, {}, 0
local counters = { take('<' .. string.rep('i8', 2 * #kept), s.counters) }
for i, name in ipairs(kept) do place[name] = i end
for i, name in ipairs(names) do
  if byte(name) == 119 then nth = nth + 1 end -- w
  local same = mine[name] or {}
  same[#same + 1], mine[name] = { at = i, key = byte(name) == 119 and keys[nth] or nil }, same
end

local writes = {}
for i, name in ipairs(wanted) do
  local scope, dimension, limit, more = byte(name), sub(name, 3), amounts[i], amounts[#wanted + i]
  local line = mine[name] and table.remove(mine[name], 1)
  if dimension == 'turns' or dimension == 'tool_calls' or dimension == 'requests'
    or dimension == 'concurrent_requests' then more = 0 end
  if limit >= 0 and extra[name] then limit = limit + extra[name] end
  local used, beside = 0, 0
  if scope == 83 or scope == 80 then -- S, P: clocks
    used, more = now - (scope == 80 and s.span_at or s.born), 0
    if scope == 80 and s.span ~= span then line = nil end
  elseif scope == 119 and line then
    local values = call('HMGET', P .. 'w:' .. line.key, 'u:' .. dimension, 'h:' .. dimension)
    used, beside = tonumber(values[1] or 0), tonumber(values[2] or 0)
  elseif place[name] and (scope == 115 or s.span == span) then
    used, beside = counters[2 * place[name] - 1], counters[2 * place[name]]
  else
    line = nil -- of a span that is over
  end
  if line then
    if limit >= 0 and not known[3] and used + beside + more > limit then return -i end
    writes[#writes + 1] = { line = line, name = name, dimension = dimension, more = more, held = beside + more }
  end
end

for _, one in ipairs(writes) do
  if one.more ~= 0 then
    holds[one.line.at] = holds[one.line.at] + one.more
    if one.line.key then
      call('HSET', P .. 'w:' .. one.line.key, 'h:' .. one.dimension, string.format('%.0f', one.held))
    else
      counters[2 * place[one.name]] = one.held
    end
  end
end
s.counters = put('<' .. string.rep('i8', 2 * #kept), unpack(counters, 1, 2 * #kept)) -- take gives its place, too
save_session(sid, s, true)
local again = put(HELD, turn, era, aside, retry, span, #owner, owner, #sid, sid, #head, head, #layout, layout,
  #held, put(integers, unpack(holds, 1, #names)), #keyed_by, keyed_by) .. sub(hold, behind)
call('SET', K, put('<I4', #again) .. again .. sub(known[2], 5 + #hold), 'KEEPTTL')
call('SET', P .. 'extended:' .. attempt, '1', 'PX', ANSWER_TTL)
return 1
