-- End a running job, if the caller's claim still owns it.
-- KEYS none. ARGV: 1 id, 2 fence, 3 worker, 4 status, 5 images, 6 failure (or empty), 7 timing,
--   8 placement (or empty), 9 its level: where the job got another level than it was placed at,
--   10 bytes of the images, 11 time of its device (ms)
-- Returns 1, also to a repeated call of the same claim; 0: fenced off, nothing was written.
local id, fence = ARGV[1], ARGV[2]
local r = read_to_end(id)
if r.finished_by == fence and r.worker == ARGV[3] and r.status == ARGV[4] then
  return 1
end
if r.status ~= 'running' or r.fence ~= fence or r.worker ~= ARGV[3] then
  count('fenced')
  return 0
end
local fields = {'images', ARGV[5], 'timing', ARGV[7], 'finished_by', fence}
local function add(name, value)
  r[name], fields[#fields + 1], fields[#fields + 2] = value, name, value
end
if ARGV[6] ~= '' then
  add('failure', ARGV[6])
end
if ARGV[8] ~= '' then
  add('placement', ARGV[8])
  add('level', ARGV[9])
end
if tonumber(ARGV[11]) > 0 then  -- else what it said last counts
  add('gpu_ms', ARGV[11])
end
end_lease(id, r.worker)
close_as_read(id, r, ARGV[4], tonumber(ARGV[10]), unpack(fields))
return 1
