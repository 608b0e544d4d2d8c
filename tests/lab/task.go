package lab

import (
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"
)

// task is work that a BMC does after its answer: a Task, and where the vendor
// has it so, a Job.
type task struct {
	id, name string
	state    string // JobState; TaskState follows from it
	begun    time.Time
	ended    time.Time
	asked    int // how often it was asked for
}

// The states that a task goes through (DSP0268, Job.JobState).
const (
	taskScheduled = "Scheduled"
	taskRunning   = "Running"
)

// open says whether a task has not ended; no task has.
func (t *task) open() bool { return t != nil && t.ended.IsZero() }

func (t *task) run() { t.turn(taskRunning) }

// wait has a task that was begun wait again.
func (t *task) wait() { t.turn(taskScheduled) }

func (t *task) turn(state string) {
	if t.open() {
		t.state = state
	}
}

func (t *task) end(state string) {
	if t.open() {
		t.state, t.ended = state, time.Now()
	}
}

// beginLocked makes a task.
func (m *Machine) beginLocked(name, state string) *task {
	m.counts.Tasks++
	t := &task{id: m.kind.taskID(m.counts.Tasks), name: name, state: state, begun: time.Now()}
	m.tasks = append(m.tasks, t)
	return t
}

func (p *personality) taskID(n int) string {
	if p.vendor == "Dell" {
		return fmt.Sprintf("JID_%012d", 100_000_000_000+n)
	}
	return fmt.Sprint(n)
}

// Where tasks and jobs are.
const (
	tasksPath    = root + "/TaskService/Tasks"
	monitorsPath = root + "/TaskService/TaskMonitors"
	jobsPath     = root + "/JobService/Jobs"
)

// task is the task with an id, nil for none.
func (m *Machine) task(id string) *task {
	m.settleBIOSLocked()
	for _, t := range m.tasks {
		if t.id != id {
			continue
		}
		switch t.asked++; {
		case m.fault.Kind == FaultTaskLate && t.asked <= 3, m.fault.Kind == FaultTaskVanishes && !t.open():
			return nil
		}
		return t
	}
	return nil
}

// isTask says whether a path is a task's or a job's.
func (p *personality) isTask(at string) bool {
	dir := path.Dir(at)
	return dir == tasksPath || p.bios.jobs != "" && (dir == jobsPath || dir == p.bios.jobs)
}

// taskAt is the task or job at a path, nil for none.
func (m *Machine) taskAt(at string) body {
	if !m.kind.isTask(at) {
		return nil
	}
	return locked(m, func() body {
		t := m.task(path.Base(at))
		switch {
		case t == nil:
			return nil
		case path.Dir(at) == tasksPath:
			b := m.kind.taskBody(at, t)
			m.twistTask(b, t)
			return b
		}
		return m.kind.jobBody(at, t)
	})
}

// twistTask is what a fault makes of a task.
func (m *Machine) twistTask(b body, t *task) {
	switch {
	case m.fault.Kind == FaultTaskNew && t.asked <= 2:
		b["TaskState"] = []string{"New", "Starting"}[t.asked-1]
	case m.fault.Kind == FaultTaskRunning && !t.open():
		b["TaskState"] = "Running"
		delete(b, "EndTime")
	}
}

func (p *personality) taskBody(at string, t *task) body {
	b := p.thing("Task", at, t.name, body{
		"TaskState":  map[string]string{taskScheduled: "Pending", "CompletedWithErrors": "Exception", "Failed": "Exception"}[t.state],
		"TaskStatus": "OK", "StartTime": t.begun.UTC().Format(time.RFC3339), "Messages": []any{}, "PercentComplete": t.percent(),
	})
	if b["TaskState"] == "" {
		b["TaskState"] = t.state
	}
	if p.tasks.monitors != "" {
		b["TaskMonitor"] = p.tasks.monitors + "/" + t.id
	}
	if b["TaskState"] == "Exception" {
		b["TaskStatus"] = "Critical"
		b["Messages"] = []any{p.speech.info("OperationFailed")}
	}
	if !t.ended.IsZero() {
		b["EndTime"] = t.ended.UTC().Format(time.RFC3339)
	}
	return b
}

func (p *personality) jobBody(at string, t *task) body {
	b := p.thing("Job", at, t.name, body{
		"JobState": t.state, "JobStatus": "OK", "JobType": "BIOSConfiguration", "Message": spaced(t.state) + ".", "PercentComplete": t.percent(),
		"StartTime": t.begun.UTC().Format(time.RFC3339), "EndTime": nil,
	})
	if p.bios.jobs == "" || path.Dir(at) == jobsPath {
		delete(b, "JobType")
		delete(b, "Message")
	}
	if t.state != "Completed" && !t.ended.IsZero() {
		b["JobStatus"] = "Critical"
	}
	if !t.ended.IsZero() {
		b["EndTime"] = t.ended.UTC().Format(time.RFC3339)
	}
	return b
}

func (t *task) percent() int {
	switch {
	case !t.ended.IsZero():
		return 100
	case t.state == taskRunning:
		return 34
	}
	return 0
}

// liveTasks shows the tasks in their collection.
func (m *Machine) liveTasks(at string, b body) {
	ids := locked(m, func() (ids []string) {
		for _, t := range m.tasks {
			ids = append(ids, t.id)
		}
		return ids
	})
	members := append(items(b["Members"]), refs(at, ids...)...)
	b["Members"], b["Members@odata.count"] = members, len(members)
}

// accepted answers that a task was begun, and where to hear of its end
// (DSP0266, Asynchronous operations).
func (x *exchange) accepted(t *task) {
	at := tasksPath + "/" + t.id
	if x.fault.Kind != FaultNoLocation {
		x.w.Header().Set("Location", or(x.kind.tasks.monitors, tasksPath)+"/"+t.id)
	}
	x.reply(http.StatusAccepted, locked(x.Machine, func() body { return x.kind.taskBody(at, t) }))
}

// monitor answers with what has come of a task: 202 as long as that is open,
// then what the request for it would have been answered with.
func (x *exchange) monitor() {
	t := locked(x.Machine, func() *task { return x.task(path.Base(x.path)) })
	if t == nil {
		x.fail(http.StatusNotFound, "ResourceMissingAtURI", x.path)
		return
	}
	open, state := locked(x.Machine, t.open), locked(x.Machine, func() string { return t.state })
	if open {
		x.accepted(t)
		return
	}
	if x.kind.tasks.forgets {
		locked(x.Machine, func() any { x.forgetLocked(t); return nil })
	}
	if state != "Completed" {
		x.fail(http.StatusInternalServerError, "OperationFailed")
		return
	}
	x.done()
}

func (m *Machine) forgetLocked(t *task) {
	m.tasks = slices.DeleteFunc(m.tasks, func(o *task) bool { return o == t })
}

// commitBIOS makes the job that brings pending settings about.
func (x *exchange) commitBIOS() {
	t := locked(x.Machine, func() *task {
		x.bios.job = x.beginLocked("Configure: BIOS.Setup.1-1", taskScheduled)
		return x.bios.job
	})
	x.accepted(t)
}

// makeJob is a POST to the vendor's jobs, which commits pending settings.
func (x *exchange) makeJob() {
	b, ok := x.read()
	if !ok {
		return
	}
	target, _ := b["TargetSettingsURI"].(string)
	switch {
	case strings.TrimRight(target, "/") != x.kind.bios.settings:
		x.fail(http.StatusBadRequest, "PropertyMissing", "TargetSettingsURI")
	case locked(x.Machine, func() bool { x.settleBIOSLocked(); return x.bios.job.open() }):
		x.fail(http.StatusBadRequest, "SYS011")
	case locked(x.Machine, func() bool { return len(x.bios.pending) == 0 }):
		x.fail(http.StatusBadRequest, "NoOperation")
	default:
		t := locked(x.Machine, func() *task {
			x.bios.job = x.beginLocked("Configure: BIOS.Setup.1-1", taskScheduled)
			return x.bios.job
		})
		x.w.Header().Set("Location", x.kind.bios.jobs+"/"+t.id)
		x.send(http.StatusOK, encode(body{}))
	}
}

// dropTask deletes a task; a job takes with it what it was to bring about,
// unless it runs.
func (x *exchange) dropTask() {
	if !x.current(x.resource(x.path)) {
		return
	}
	ok := locked(x.Machine, func() bool {
		t := x.task(path.Base(x.path))
		if t == nil || t.state == taskRunning {
			return false
		}
		if t == x.bios.job {
			x.bios.job, x.bios.pending = nil, nil
		}
		x.forgetLocked(t)
		return true
	})
	if !ok {
		x.fail(http.StatusConflict, "ResourceInUse")
		return
	}
	x.done()
}

// growTasks adds the services of tasks and jobs.
func (p *personality) growTasks(l layout) {
	l.singles[root+"/TaskService"] = func(*Machine) body {
		return p.thing("TaskService", root+"/TaskService", "Task Service", body{
			"ServiceEnabled": true, "Status": healthy(), "Tasks": ref(tasksPath), "DateTime": now(), "CompletedTaskOverWritePolicy": "Oldest",
			"LifeCycleEventOnTaskStateChange": false,
		})
	}
	l.some("Task", tasksPath)
	if p.bios.jobs == "" {
		return
	}
	l.singles[root+"/JobService"] = func(*Machine) body {
		return p.thing("JobService", root+"/JobService", "Job Service", body{
			"ServiceEnabled": true, "Status": healthy(), "Jobs": ref(jobsPath), "DateTime": now(),
			"ServiceCapabilities": body{"MaxJobs": 256, "MaxSteps": 1, "Scheduling": true},
		})
	}
	l.some("Job", jobsPath)
	l.some("DellJob", p.bios.jobs)
}

// now is the BMC's clock.
func now() string { return time.Now().UTC().Format(time.RFC3339) }
