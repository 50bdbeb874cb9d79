-- handed: the end of settle for a session that waits for people, or for a late result, from now on. See settle.lua.
local notes = s.notes ~= '' and unpacked(s.notes) or {}
if pause ~= '' and not notes.paused then -- who paused it first is who is to be asked
  notes.paused, notes.by, notes.why, s.answers = pause, pause, pause_why, 0
  note_change(sid, now, pause, 'pause', pause_why)
end
s.notes = pack(notes) -- not '': kept for longer
keep_longer(sid, run, t, s.span, now)
save_session(sid, s)
return done
