-- meter: hold what a request outside of any session needs of its tenant's limits, all or nothing. Safe to run twice;
-- settle and the sweeper give it back like any hold.
--
-- Follows state.lua in the same script.
-- KEYS[1]  "gp:{<org>}:"
-- ARGV[1]  msgpack: the locals below. ARGV[2] names, ARGV[3] limits and holds of the lines, as for begin
--
-- Answers now, 1 if it is admitted, then used and held of each line, as integers.
local token, lease, offset, keys = unpacked(ARGV[1])
local K = P .. 'k:' .. token
local asked = call('MGET', K, P .. 'panic')
if asked[1] then return sub(asked[1], 5 + take('<I4', asked[1])) end -- the token again
local clock = call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000) + offset

local names = { unpacked(ARGV[2]) }
local integers = '<' .. string.rep('i8', 2 * #names)
local amounts, spent, admitted = { take(integers, ARGV[3]) }, {}, 1
for i, name in ipairs(names) do
  local base, rest = string.match(keys[i], '^([^\30]*)\30(.*)$') -- as in begin.lua
  if base and tonumber(rest) then
    keys[i] = string.format('%s:%.0f', base, math.floor(now / tonumber(rest)))
  elseif base then
    local past, from, this, till, next = string.match(rest, '^([^\30]*)\30(%d+)\30([^\30]*)\30(%d+)\30([^\30]*)')
    keys[i] = base .. ':' .. (now < tonumber(from) and past or now < tonumber(till) and this or next)
  end
  local values = call('HMGET', P .. 'w:' .. keys[i], 'u:' .. sub(name, 3), 'h:' .. sub(name, 3))
  spent[2 * i - 1], spent[2 * i] = tonumber(values[1] or 0), tonumber(values[2] or 0)
  local limit, hold = amounts[i], amounts[#names + i]
  if limit >= 0 and not asked[2] and spent[2 * i - 1] + spent[2 * i] + hold > limit then admitted = 0 end
end
if admitted == 0 then
  local answer = put('<i8i8', now, 0) .. put(integers, unpack(spent, 1, 2 * #names))
  call('SET', K, put('<I4', 0) .. answer, 'PX', ANSWER_TTL)
  return answer
end

for i, name in ipairs(names) do
  local window = keys[i]
  spent[2 * i] = spent[2 * i] + amounts[#names + i]
  call('HSET', P .. 'w:' .. window, 'h:' .. sub(name, 3), string.format('%.0f', spent[2 * i]))
  if spent[2 * i - 1] == 0 then -- it may be new
    if sub(window, 1, 2) ~= 't:' then
      call('PEXPIRE', P .. 'w:' .. window, string.find(window, '^[mh]:') and RATE_TTL or WINDOW_TTL)
    elseif sub(window, 1, 7) == 't:user:' then
      call('PEXPIRE', P .. 'w:' .. window, USER_TTL)
    end
  end
end
local keyed_by, holds = pack(keys), sub(ARGV[3], 8 * #names + 1)
local held = put(HELD, 0, 0, 1, 0, 0, 0, '', 0, '', 0, '', #ARGV[2], ARGV[2], #holds, holds, #keyed_by, keyed_by)
local answer = put('<i8i8', now, 1) .. put(integers, unpack(spent, 1, 2 * #names))
call('SET', K, put('<I4', #held) .. held .. answer, 'PX', math.max(7 * 24 * HOUR, 2 * lease))
call('ZADD', P .. 'holds', now + lease, token)
return answer
