-- state: what is kept of a session (s:) and of a thread (t:). First part of begin, settle, idle and label.
--
-- Each is one string: numbers, then texts with their lengths in front, in the order written here. That is read and
-- written in a fifth of the time of a map. The first byte is the number of this form; another one (that of version 0.1)
-- is as good as none. Booleans are 0 and 1; a `closed` of '' is open.
--
-- A session has its counters with it, and those of its present request span: `counters` holds two integers (used, held)
-- for each name in `layout`, which is a letter for the scope ("s" session, "p" span, "w" a key of its own, whose
-- counters are elsewhere), a colon, and the dimension; of clocks ("S", "P") the integers mean nothing.
--
-- r:  the newest facts of a thread, each in its envelope (a msgpack binary), in one string; `held_facts` says how many
-- n:  to whom a round was given: pack(count, time, run), or MANY if to several: then m: is a sorted set of them
-- k:  a token: what it holds with its length in front (0 = nothing any more), then the answer of begin
--
-- What is needed only now and then is made in place and not as a function: that would be made anew for every turn.
local P = KEYS[1]
local call, pack, unpacked = redis.call, cmsgpack.pack, cmsgpack.unpack
local put, take, sub, byte = struct.pack, struct.unpack, string.sub, string.byte
local FORM, SEP, NEXT, MANY = 2, '\31', '\30', '+'
local MINUTE, HOUR = 60000, 3600000
local RUN_TTL = 25 * HOUR -- what is renewed at most once an hour must live 24 h after the last turn
local WINDOW_TTL = 35 * 24 * HOUR -- counters outside a session: a month and some days
local ANSWER_TTL = 2 * MINUTE -- a client that sends a call again does so within its own time limit
local S, T = '<BddddddddddI4c0I4c0I4c0I4c0I4c0I4c0', '<BddddddddddddddI4c0I4c0I4c0I4c0I4c0I4c0I4c0I4c0'
local HELD = '<dddddI4c0I4c0I4c0I4c0I4c0I4c0' -- see begin.lua

local function read_session(raw)
  if not raw or byte(raw) ~= FORM then return nil end
  local _, born, at, seen, idle, turn, span, span_at, threads, answers, tooled, closed, main, latest, traceparent,
    layout, counters = take(S, raw)
  return { born = born, at = at, seen = seen, idle = idle, turn = turn, span = span, span_at = span_at,
    threads = threads, answers = answers, tooled = tooled == 1, closed = closed, main = main, latest = latest,
    traceparent = traceparent, layout = layout, counters = counters }
end

local function save_session(sid, s, keep)
  local raw = put(S, FORM, s.born, s.at, s.seen, s.idle, s.turn, s.span, s.span_at, s.threads, s.answers,
    s.tooled and 1 or 0, #s.closed, s.closed, #s.main, s.main, #s.latest, s.latest, #s.traceparent, s.traceparent,
    #s.layout, s.layout, #s.counters, s.counters)
  if keep then call('SET', P .. 's:' .. sid, raw, 'KEEPTTL') else call('SET', P .. 's:' .. sid, raw, 'PX', RUN_TTL) end
end

local function read_thread(raw)
  if not raw or byte(raw) ~= FORM then return nil end
  local _, at, turn, steps, held_facts, count, equal, open, live, era, renewed, rearmed, answers, taken, told, state,
    answer, delivered, conversation, names, user, head, closed = take(T, raw)
  return { at = at, turn = turn, steps = steps, held_facts = held_facts, count = count, equal = equal, open = open,
    live = live, era = era, renewed = renewed, rearmed = rearmed, answers = answers, taken = taken == 1,
    told = told == 1, state = state, answer = answer, delivered = delivered, conversation = conversation,
    names = names, user = user, head = head, closed = closed }
end

local function save_thread(run, t, keep)
  local raw = put(T, FORM, t.at, t.turn, t.steps, t.held_facts, t.count, t.equal, t.open,
    t.live, t.era, t.renewed, t.rearmed, t.answers, t.taken and 1 or 0, t.told and 1 or 0, #t.state, t.state, #t.answer,
    t.answer, #t.delivered, t.delivered, #t.conversation, t.conversation, #t.names, t.names, #t.user, t.user,
    #t.head, t.head, #t.closed, t.closed)
  if keep then call('SET', P .. 't:' .. run, raw, keep) else call('SET', P .. 't:' .. run, raw, 'PX', RUN_TTL) end
end
