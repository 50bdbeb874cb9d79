-- note: keep texts beside a conversation whose turn was not admitted, and is therefore not settled. Follows state.lua.
--
-- KEYS[1]  "gp:{<org>}:"
-- ARGV[1]  msgpack: session, thread, anchors; ARGV[2..] their values
--
-- Safe to run twice: the first text at an anchor stays, as in settle. Answers how many were kept.
local session, thread, anchors = unpacked(ARGV[1])
local LEDGER = 64 -- as in settle
local run = session .. SEP .. thread
local t = read_thread(call('GET', P .. 't:' .. run))
if not t then return 0 end
local texts, order, kept = P .. 'g:' .. run, P .. 'o:' .. run, 0
for i, anchor in ipairs(anchors) do
  if call('HSETNX', texts, anchor, ARGV[1 + i]) == 1 then
    call('RPUSH', order, anchor)
    kept = kept + 1
  end
end
while call('LLEN', order) > LEDGER do call('HDEL', texts, call('LPOP', order)) end
for _, key in ipairs({ texts, order }) do call('PEXPIRE', key, KEPT_TTL) end -- it waits for people, mostly
if not t.told then
  t.told = true
  save_thread(run, t, true)
end
return kept
