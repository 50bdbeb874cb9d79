-- state: what is kept of a session (s:) and of a thread (t:). First part of begin, settle, idle and label.
--
-- Each is one string of values in the order written here, read and written in a third of the time of a map; the first
-- value is the number of this form, and another form (that of version 0.1) is as good as none. A `closed` of '' is open.
--
-- A session has its counters with it, and those of its present request span: `counters` holds two integers (used, held)
-- for each name in `layout`, which is a letter for the scope ("s" session, "p" span, "w" a key of its own, whose
-- counters are elsewhere), a colon, and the dimension; of clocks ("S", "P") the integers mean nothing.
--
-- r:  the newest facts of a thread, each in its envelope (a msgpack binary), in one string; `held_facts` says how many
-- n:  to whom a round was given: pack(count, time, run), or MANY if to several: then m: is a sorted set of them
-- k:  a token: pack(held, spent, answer), three strings; `held` is '' when nothing is held (any more)
local P = KEYS[1]
local call, pack, unpacked = redis.call, cmsgpack.pack, cmsgpack.unpack
local FORM, SEP, NEXT, MANY = 2, '\31', '\30', '+'
local MINUTE, HOUR = 60000, 3600000
local RUN_TTL = 25 * HOUR -- what is renewed at most once an hour must live 24 h after the last turn
local WINDOW_TTL = 35 * 24 * HOUR -- counters outside a session: a month and some days
local ANSWER_TTL = 2 * MINUTE -- a client that sends a call again does so within its own time limit

local function read_session(raw)
  if not raw then return nil end
  local form
  local s = { born = 0, at = 0, seen = 0, idle = 0, turn = 0, span = 0, span_at = 0, threads = 0, answers = 0,
    tooled = false, closed = '', main = '', latest = '', traceparent = '', layout = '', counters = '' }
  form, s.born, s.at, s.seen, s.idle, s.turn, s.span, s.span_at, s.threads, s.answers, s.tooled, s.closed, s.main,
    s.latest, s.traceparent, s.layout, s.counters = unpacked(raw)
  return form == FORM and s or nil
end

local function save_session(sid, s, keep)
  local raw = pack(FORM, s.born, s.at, s.seen, s.idle, s.turn, s.span, s.span_at, s.threads, s.answers, s.tooled,
    s.closed, s.main, s.latest, s.traceparent, s.layout, s.counters)
  if keep then call('SET', P .. 's:' .. sid, raw, keep) else call('SET', P .. 's:' .. sid, raw, 'PX', RUN_TTL) end
end

local function read_thread(raw)
  if not raw then return nil end
  local form
  local t = { at = 0, turn = 0, steps = 0, held_facts = 0, count = 0, equal = 0, open = 0, live = 0, era = 0,
    renewed = 0, rearmed = 0, answers = 0, taken = true, told = false, state = '', answer = '', delivered = '',
    conversation = '', names = '', user = '', head = '', closed = '' }
  form, t.at, t.turn, t.steps, t.held_facts, t.count, t.equal, t.open, t.live, t.era, t.renewed, t.rearmed, t.answers,
    t.taken, t.told, t.state, t.answer, t.delivered, t.conversation, t.names, t.user, t.head, t.closed = unpacked(raw)
  return form == FORM and t or nil
end

local function save_thread(run, t)
  call('SET', P .. 't:' .. run, pack(FORM, t.at, t.turn, t.steps, t.held_facts, t.count, t.equal, t.open, t.live,
    t.era, t.renewed, t.rearmed, t.answers, t.taken, t.told, t.state, t.answer, t.delivered, t.conversation, t.names,
    t.user, t.head, t.closed), 'PX', RUN_TTL)
end
