-- handover: what is done when a session is handed to people, or comes back. Before handed, run and approval.
--
-- asked    the sessions that were handed to people in the last KEPT_TTL, or waited for a late result, by when
-- history: what became of a session and by whom, the newest CHANGES of it, each {time, by, what, why}
local CHANGES, ASKED_LAST = 256, 10000

local function note_change(sid, now, by, what, why)
  local key = P .. 'history:' .. sid
  call('RPUSH', key, pack({ now, by, what, why }))
  call('LTRIM', key, -CHANGES, -1)
  call('PEXPIRE', key, KEPT_TTL)
end

-- Let all that belongs to a run live until somebody comes back to it.
local function keep_longer(sid, run, t, span, now)
  local all = { 'v:' .. sid, 'x:' .. sid, 'd:' .. sid, 'b:' .. sid .. ':p' .. span }
  if t then
    for _, list in ipairs({ 'r:', 'e:', 'g:', 'o:' }) do all[#all + 1] = list .. run end
    if t.head ~= '' then all[#all + 1] = 'h:' .. t.head end
  end
  for _, key in ipairs(all) do call('PEXPIRE', P .. key, KEPT_TTL) end
  call('ZADD', P .. 'asked', now, sid)
  call('ZREMRANGEBYSCORE', P .. 'asked', '-inf', now - KEPT_TTL)
  call('ZREMRANGEBYRANK', P .. 'asked', 0, -ASKED_LAST - 1)
  call('PEXPIRE', P .. 'asked', KEPT_TTL)
end
