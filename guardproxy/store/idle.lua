-- idle: sessions without a turn for so long, each handed out once. A later turn makes the session idle-able again.
--
-- Follows state.lua and look.lua in the same script.
-- KEYS[1]  "gp:{<org>}:"
-- ARGV[1]  idle for so many milliseconds; ARGV[2] clock offset; ARGV[3] how many at most
local clock = call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000) + tonumber(ARGV[2])
local since = now - tonumber(ARGV[1])
local found = call('ZRANGEBYSCORE', P .. 'idle', '-inf', since, 'LIMIT', 0, ARGV[3])
local answer = {}
for _, sid in ipairs(found) do
  local raw = call('GET', P .. 's:' .. sid)
  local s = read_session(raw)
  if s and s.seen > since and s.closed ~= 'operator' then -- the set is written once a minute
    call('ZADD', P .. 'idle', s.seen, sid)
  else
    call('ZREM', P .. 'idle', sid)
    if s then
      s.idle = 0
      save_session(sid, s, 'KEEPTTL')
      answer[#answer + 1] = { sid, unpack(look(sid, now)) }
    end
  end
end
return answer
