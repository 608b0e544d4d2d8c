package redfish

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/driver"
)

// job is one entry of a BMC's queue of jobs: Dell's DellJob, or a Job
// (DSP0268).
type job struct{ object }

func (j job) id() string   { return words(j.object, "Id") }
func (j job) path() string { return at[string](j.object, "@odata.id") }

// shown is the job's state in people's words.
func (j job) shown() string { return strings.ToLower(words(j.object, "JobState")) }

// state is the job's state without the blanks and capitals in which firmware
// versions differ: "Completed with Errors", "CompletedWithErrors".
func (j job) state() string { return strings.ReplaceAll(j.shown(), " ", "") }

// setsBIOS says whether the job changes settings.
func (j job) setsBIOS() bool {
	name := strings.ToLower(words(j.object, "Name"))
	return at[string](j.object, "JobType") == "BIOSConfiguration" || strings.Contains(name, "config") && strings.Contains(name, "bios")
}

func (j job) ended() bool {
	return strings.HasPrefix(j.state(), "completed") || j.failed()
}

// failed: "Completed with Errors" has changed some settings, or none.
func (j job) failed() bool {
	return slices.Contains([]string{"completedwitherrors", "failed", "rebootfailed", "exception", "cancelled"}, j.state())
}

// running: it may not be disturbed any more. What has not begun is new, or is
// scheduled for a boot.
func (j job) running() bool {
	return !j.ended() && !slices.Contains([]string{"new", "scheduled", "scheduling", "pending", "waiting", "downloaded", "readyforexecution", "pendingreboot"}, j.state())
}

// maxJobs bounds how many jobs of a queue are read one by one.
const maxJobs = 16

// biosJobs are the jobs that change settings and have not ended.
func (m *machine) biosJobs(ctx context.Context, s system) ([]job, error) {
	all, err := m.jobs(ctx, s)
	return slices.DeleteFunc(all, func(j job) bool { return !j.setsBIOS() || j.ended() }), err
}

// jobs is the queue, in one request for each page where the BMC puts the jobs
// into it.
func (m *machine) jobs(ctx context.Context, s system) ([]job, error) {
	members, err := m.jobQueue(ctx, s)
	if err != nil {
		return nil, err
	}
	var all []job
	for i, member := range members {
		if words(member, "JobState") == "" && i >= len(members)-maxJobs {
			if member, err = m.client.get(ctx, at[string](member, "@odata.id")); hasStatus(err, http.StatusNotFound) {
				continue // just made, or purged
			} else if err != nil {
				return nil, err
			}
		}
		if words(member, "JobState") != "" {
			all = append(all, job{member})
		}
	}
	return all, nil
}

// jobQueue reads the queue from where this BMC has it: Dell's own tells what a
// job is for, and older firmware has it in another place.
func (m *machine) jobQueue(ctx context.Context, s system) ([]object, error) {
	const expand = "?$expand=*($levels=1)"
	if m.memory.queue != "" {
		all, err := m.client.collection(ctx, m.memory.queue+expand)
		if hasStatus(err, http.StatusNotFound) {
			m.memory.queue = ""
		}
		return all, err
	}
	places := []string{"/redfish/v1/JobService/Jobs"}
	if managers := links(s.object, "Links", "ManagedBy"); len(managers) > 0 {
		manager := strings.TrimRight(managers[0], "/")
		places = slices.Insert(places, 0, manager+"/Oem/Dell/Jobs", manager+"/Jobs")
	}
	var err error
	for _, place := range places {
		var all []object
		if all, err = m.client.collection(ctx, place+expand); err == nil {
			m.memory.queue = place
			return all, nil
		}
		if !hasStatus(err, http.StatusNotFound, http.StatusMethodNotAllowed) {
			return nil, err
		}
	}
	return nil, err
}

// dropJobs takes back the jobs that have not begun: a BMC takes one for a target.
func (m *machine) dropJobs(ctx context.Context, jobs []job) error {
	for _, j := range jobs {
		if j.path() == "" {
			return refused("the BMC's job %s holds the settings, and the BMC offers no way to cancel it; delete it on the BMC", j.id())
		}
		if j.running() {
			return fmt.Errorf("%w: the BMC's job %s is changing settings, and takes no others until it has ended", driver.ErrBusy, j.id())
		}
		err := m.client.delete(ctx, j.path())
		if hasStatus(err, http.StatusForbidden, http.StatusBadRequest, http.StatusConflict, http.StatusMethodNotAllowed) {
			return refused("the BMC's job %s holds the settings and cannot be cancelled (%s); boot the machine so that it ends, or end the lockdown",
				j.id(), printable(err.Error()))
		}
		if err != nil && !hasStatus(err, http.StatusNotFound) {
			return err
		}
	}
	return nil
}
