-- look: a session as people see it. Between state.lua and what answers it: idle.lua, or nothing but the line below.
--
-- KEYS[1]  "gp:{<org>}:"
local THREADS = 256 -- looked at, of one session

-- { the record, its parts (threads and heads), state, by, why }, or nil. A thread that waits for an approval pauses it;
-- where it is a question, the session needs a person.
local function look(sid, now)
  local raw = call('GET', P .. 's:' .. sid)
  local s = read_session(raw)
  if not s then return nil end
  local notes = s.notes ~= '' and unpacked(s.notes) or {}
  local parts, keys = call('HKEYS', P .. 'd:' .. sid), {}
  for _, part in ipairs(parts) do
    if sub(part, 1, 7) == 'thread:' and #keys < THREADS then
      keys[#keys + 1] = P .. 't:' .. sid .. SEP .. sub(part, 8)
    end
  end
  if s.closed == 'operator' then return { raw, parts, 'closed', notes.by or s.closed, notes.why or '' } end
  if s.closed ~= '' then return { raw, parts, 'closed', s.closed, '' } end
  if notes.paused then return { raw, parts, 'paused', notes.by, notes.why } end
  local state, by, why = 'active', '', ''
  local threads = #keys > 0 and call('MGET', unpack(keys)) or {}
  for i, one in ipairs(threads) do
    local t = one and read_thread(one)
    local open = t and t.waits ~= '' and call('HMGET', P .. 'approval:' .. t.waits, 'state', 'expires_ms', 'tool')
    if open and open[1] == 'pending' and now < tonumber(open[2]) then
      return { raw, parts, t.status == 1 and 'need_human' or 'paused', 'approval', t.waits .. ' ' .. open[3] }
    elseif t and t.closed ~= '' and sub(keys[i], #P + #sid + 4) == s.main then
      state, by = 'closed', t.closed
    elseif t and t.status > 0 and state ~= 'closed' and state ~= 'need_human' then
      state = t.status == 1 and 'need_human' or 'waiting'
    end
  end
  return { raw, parts, state, by, why }
end
