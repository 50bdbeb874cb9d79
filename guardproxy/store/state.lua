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
-- Beside its numbers a session has `notes`: '' or a msgpack map of what people (or a policy) said of it: `paused` (who:
-- operator, loop, budget, check, tool), `by` and `why` (of the pause, or of an operator's cut), and `extra`, by how much the limit
-- of a line is raised (by its name in `layout`; those of a span end with it). A thread has `status` (0 active, 1
-- need_human, 2 waiting) and `waits`, the id of the approval it waits for. What waits for people is kept for KEPT_TTL.
--
-- `traceparent` is the header with which the session's trace was adopted, '' = it has its own. Once a segment of it has
-- ended there stand behind it, with semicolons between: the number of the segment, since when it goes, the turn before
-- it, and "s" or "f" with the token of who sent its root (seal.lua), "o", or "r" with when the one before it began and ended.
--
-- What is needed only now and then is made in place and not as a function: that would be made anew for every turn.
local P = KEYS[1]
local call, pack, unpacked = redis.call, cmsgpack.pack, cmsgpack.unpack
local put, take, sub, byte = struct.pack, struct.unpack, string.sub, string.byte
local FORM, SEP, NEXT, MANY = 3, '\31', '\30', '+'
local MINUTE, HOUR = 60000, 3600000
local RUN_TTL = 25 * HOUR -- what is renewed at most once an hour must live 24 h after the last turn
local KEPT_TTL = 8 * 24 * HOUR -- a person may be away for a week
local WINDOW_TTL = 35 * 24 * HOUR -- counters outside a session: a month and some days; those of "t:..." for ever
local USER_TTL = 400 * 24 * HOUR -- but of "t:user:...": clients make up users; after the last call that was settled
local RATE_TTL = 3 * HOUR -- "m:..." and "h:...", the counters of a minute or an hour
local ANSWER_TTL = 2 * MINUTE -- a client that sends a call again does so within its own time limit
local S, T = '<BddddddddddI4c0I4c0I4c0I4c0I4c0I4c0I4c0',
  '<BddddddddddddddddI4c0I4c0I4c0I4c0I4c0I4c0I4c0I4c0I4c0'
local HELD = '<dddddI4c0I4c0I4c0I4c0I4c0I4c0' -- see begin.lua; behind it the payer with its length and three numbers

local function read_session(raw)
  if not raw or byte(raw) ~= FORM then return nil end
  local _, born, at, seen, idle, turn, span, span_at, threads, answers, tooled, closed, main, latest, traceparent,
    notes, layout, counters = take(S, raw)
  return { born = born, at = at, seen = seen, idle = idle, turn = turn, span = span, span_at = span_at,
    threads = threads, answers = answers, tooled = tooled == 1, closed = closed, main = main, latest = latest,
    traceparent = traceparent, notes = notes, layout = layout, counters = counters }
end

local function save_session(sid, s, keep)
  local raw = put(S, FORM, s.born, s.at, s.seen, s.idle, s.turn, s.span, s.span_at, s.threads, s.answers,
    s.tooled and 1 or 0, #s.closed, s.closed, #s.main, s.main, #s.latest, s.latest, #s.traceparent, s.traceparent,
    #s.notes, s.notes, #s.layout, s.layout, #s.counters, s.counters)
  if keep then return call('SET', P .. 's:' .. sid, raw, 'KEEPTTL') end
  call('SET', P .. 's:' .. sid, raw, 'PX', s.notes ~= '' and KEPT_TTL or RUN_TTL)
end

local function read_thread(raw)
  if not raw or byte(raw) ~= FORM then return nil end
  local _, at, turn, steps, held_facts, count, equal, open, live, era, renewed, rearmed, answers, taken, told,
    answered, status, state, answer, delivered, conversation, names, user, head, closed, waits = take(T, raw)
  return { at = at, turn = turn, steps = steps, held_facts = held_facts, count = count, equal = equal, open = open,
    live = live, era = era, renewed = renewed, rearmed = rearmed, answers = answers, taken = taken == 1,
    told = told == 1, answered = answered, status = status, state = state, answer = answer, delivered = delivered,
    conversation = conversation, names = names, user = user, head = head, closed = closed, waits = waits }
end

local function save_thread(run, t, keep)
  local raw = put(T, FORM, t.at, t.turn, t.steps, t.held_facts, t.count, t.equal, t.open,
    t.live, t.era, t.renewed, t.rearmed, t.answers, t.taken and 1 or 0, t.told and 1 or 0, t.answered, t.status,
    #t.state, t.state, #t.answer, t.answer, #t.delivered, t.delivered, #t.conversation, t.conversation,
    #t.names, t.names, #t.user, t.user, #t.head, t.head, #t.closed, t.closed, #t.waits, t.waits)
  if keep then return call('SET', P .. 't:' .. run, raw, 'KEEPTTL') end
  call('SET', P .. 't:' .. run, raw, 'PX', (t.waits ~= '' or t.status > 0) and KEPT_TTL or RUN_TTL)
end
