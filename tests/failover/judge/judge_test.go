package judge

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

var begin = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func at(seconds float64) time.Time { return begin.Add(time.Duration(seconds * float64(time.Second))) }

const a, b = "10.0.0.2", "10.0.0.3" // controllers

func sealed(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return string(text) + "#01234567"
}

// leads is a write of the term.
func leads(number, pid int, seconds float64, released bool) Write {
	return Write{Key: "/slipway/v1/s/term", Value: sealed(map[string]any{"term": number, "holder": fmt.Sprint("host, process ", pid), "released": released}), At: at(seconds)}
}

// approves is a write of the ledger of m1, at the last of these times; a number below zero is no time.
func approves(all ...[2]float64) Write {
	entries, last := []map[string]any{}, 1.0
	for i, times := range all {
		last = max(last, times[0], times[1])
		e := map[string]any{"set": fmt.Sprint("set-", i+1), "opened": at(times[0])}
		if times[1] >= 0 {
			e["consumed"] = at(times[1])
		}
		entries = append(entries, e)
	}
	return Write{Key: "/slipway/v1/s/ledger/m1", Value: sealed(map[string]any{"entries": entries}), At: at(last)}
}

// logsIn is a write of the sessions on m1.
func logsIn(all ...session) Write {
	return Write{Key: "/slipway/v1/s/sessions/m1", Value: sealed(map[string]any{"manager": all}), At: at(30)}
}

const id = "/redfish/v1/" + sessions + "/"

func call(seconds float64, host, method, path string, status int) Call {
	path, kind, _ := strings.Cut(path, " ")
	return Call{at(seconds), host + ":40000", "m1", method, "/redfish/v1/" + path, status, kind}
}

const (
	insert   = "Managers/1/VirtualMedia/1/Actions/VirtualMedia.InsertMedia"
	eject    = "Managers/1/VirtualMedia/1/Actions/VirtualMedia.EjectMedia"
	reset    = "Systems/1/Actions/ComputerSystem.Reset On"
	cut      = "Systems/1/Actions/ComputerSystem.Reset ForceOff"
	shutdown = "Systems/1/Actions/ComputerSystem.Reset GracefulShutdown"
	sessions = "SessionService/Sessions"
)

// good is a history in which all went well: a led, installed m1 once and was killed. Then b led and
// installed it again, for another approval.
func good() History {
	h := History{
		Calls: []Call{
			call(3, a, "POST", sessions, 201), call(4, a, "POST", insert, 204), call(5, a, "POST", reset, 204),
			call(6, a, "GET", "Systems/1", 200), call(9, a, "POST", eject, 204), call(10, a, "POST", reset, 204),
			call(20, b, "POST", reset, 401), call(33, b, "POST", sessions, 201), call(34, b, "DELETE", sessions+"/7", 204),
			call(35, b, "PATCH", "Systems/1", 200), call(37, b, "POST", insert, 204), call(38, b, "POST", reset, 204), call(42, b, "POST", eject, 204),
		},
		Writes: []Write{
			leads(1, 11, 1, false), approves([2]float64{2, -1}), approves([2]float64{2, 3}), leads(1, 11, 15, false),
			leads(2, 22, 32, false), approves([2]float64{2, 3}, [2]float64{34, -1}), approves([2]float64{2, 3}, [2]float64{34, 36}),
			leads(2, 22, 50, true), logsIn(session{1, id + "7"}), logsIn(session{1, id + "7"}, session{2, id + "8"}), logsIn(session{2, id + "8"}),
		},
		Events: []Event{
			{At: at(0), Kind: Started, Address: a, PID: 11}, {At: at(0), Kind: Started, Address: b, PID: 22},
			{At: at(2), Kind: Approved, Set: "set-1", Nodes: []string{"m1"}},
			{At: at(22), Kind: Fault, What: "kill", Address: a, Leads: true},
			{At: at(34), Kind: Approved, Set: "set-2", Nodes: []string{"m1"}},
		},
		Branch: Branch{Updates: [][2]string{{"", "c1"}, {"c1", "c2"}, {"c2", "c4"}}, Parents: map[string][]string{"c1": nil, "c2": {"c1"}, "c3": {"c2"}, "c4": {"c3"}}},
	}
	h.number()
	return h
}

// number gives the writes their revisions.
func (h *History) number() {
	for i := range h.Writes {
		h.Writes[i].Revision = int64(i + 2)
	}
}

// A history in which all went well is found to be so, and how much was looked at is counted.
func TestGoodHistory(t *testing.T) {
	v := Judge(good())
	if len(v.Broken) > 0 {
		t.Errorf("found %q", v.Broken)
	}
	if v.Terms != 2 || v.Changes != 8 || v.Installations != 2 || v.Approvals != 2 || v.UsedForNothing != 0 || v.StatusCommits != 3 {
		t.Errorf("looked at %+v", v)
	}
	if len(v.Takeovers) != 1 || v.Takeovers[0].Led != 10*time.Second || v.Takeovers[0].Wrote != 13*time.Second {
		t.Errorf("takeovers %+v", v.Takeovers)
	}
}

// Each promise that is broken is found, in a history that differs from a good one in that.
func TestBadHistories(t *testing.T) {
	for _, c := range []struct {
		name, want string
		spoil      func(*History)
	}{
		{"a change after the term", "10.0.0.3 held term 2", func(h *History) { h.Calls = append(h.Calls, call(33.5, a, "PATCH", "Systems/1", 200)) }},
		{"a change before the term", "10.0.0.2 held term 1", func(h *History) { h.Calls = append(h.Calls, call(31, b, "PATCH", "Systems/1", 200)) }},
		{"a change before any term", "no term had begun", func(h *History) { h.Calls = append(h.Calls, call(0.5, a, "PATCH", "Systems/1", 200)) }},
		{"a change after the term was released", "term 2 was released", func(h *History) { h.Calls = append(h.Calls, call(51, b, "PATCH", "Systems/1", 200)) }},
		{"a change by nobody", "10.0.0.9", func(h *History) { h.Calls = append(h.Calls, call(12, "10.0.0.9", "PATCH", "Systems/1", 200)) }},
		{"a second start for one approval", "for one approval (set-2)", func(h *History) { h.Calls = append(h.Calls, call(39, b, "POST", reset, 204)) }},
		{"a start by a late request", "for one approval (set-1)", func(h *History) {
			h.Calls = append(h.Calls, call(33, b, "POST", insert, 204), call(34.5, b, "POST", reset, 204))
		}},
		{"a start again by the same controller", "for one approval (set-2)", func(h *History) {
			h.Calls = append(h.Calls, call(39, b, "POST", cut, 204), call(39.5, b, "POST", insert, 204), call(40, b, "POST", reset, 204))
		}},
		{"a start again after its system was started", "for one approval (set-1)", func(h *History) {
			h.Calls = append(h.Calls, call(34.1, b, "POST", insert, 204), call(34.5, b, "POST", reset, 204))
		}},
		{"a start again from the old medium", "for one approval (set-1)", func(h *History) {
			h.Calls = slices.DeleteFunc(h.Calls, func(x Call) bool { return x.When == at(9) || x.When == at(10) })
			h.Calls = append(h.Calls, call(34.1, b, "POST", cut, 204), call(34.5, b, "POST", reset, 204))
		}},
		{"a start without an approval", "no approval was used for it", func(h *History) {
			h.Calls = append(h.Calls, call(2.5, a, "POST", insert, 204), call(2.6, a, "POST", reset, 204))
		}},
		{"a session that was not ended", "was not ended there", func(h *History) {
			h.Calls = slices.DeleteFunc(h.Calls, func(x Call) bool { return x.Method == "DELETE" })
		}},
		{"a session that could not be ended", "Sessions/7 of term 1 was not ended there", func(h *History) { h.Calls[8].Status = 500 }},
		{"another session that was ended", "was not ended there", func(h *History) { h.Calls[8].Path = id + "8" }},
		{"one of two sessions that was ended", "was not ended there", func(h *History) { h.Writes = append(h.Writes, logsIn(session{1, id + "6"})) }},
		{"an approval that was confirmed and is not recorded", "is in no record", func(h *History) {
			h.Events = append(h.Events, Event{At: at(40), Kind: Approved, Set: "set-9", Nodes: []string{"m1"}})
		}},
		{"an approval of a node that is not recorded", "is in no record", func(h *History) { h.Events[4].Nodes = []string{"m1", "m2"} }},
		{"an approval that is gone", "is gone, and was not used", func(h *History) { h.Writes[6] = approves([2]float64{2, 3}) }},
		{"an approval that was used and is forgotten", "the ledger forgot it", func(h *History) { h.Writes[2] = approves([2]float64{2, 3}); h.Writes[3] = approves() }},
		{"an approval that is open again", "is open again", func(h *History) { h.Writes[6] = approves([2]float64{2, -1}, [2]float64{34, 36}) }},
		{"an approval that was used twice", "and again at", func(h *History) { h.Writes[6] = approves([2]float64{2, 36}, [2]float64{34, 36}) }},
		{"an approval that ended", "ended without being used: why", func(h *History) {
			h.Writes[5].Value = strings.Replace(h.Writes[5].Value, `"opened":"2026-03-01T12:00:34Z"`, `"opened":"2026-03-01T12:00:34Z","ended":"2026-03-01T12:00:35Z","why":"why"`, 1)
		}},
		{"two holders of a term", "both hold term 1", func(h *History) { h.Writes[3] = leads(1, 22, 15, false) }},
		{"a term that goes back", "term 1 follows term 2", func(h *History) { h.Writes = append(h.Writes, leads(1, 11, 60, false)) }},
		{"a term after its release", "goes on after it was released", func(h *History) { h.Writes = append(h.Writes, leads(2, 22, 60, false)) }},
		{"a term that began earlier", "began before term 1", func(h *History) { h.Writes[4] = leads(2, 22, 0.5, false) }},
		{"an unknown holder", "no such process was started", func(h *History) { h.Writes[4] = leads(2, 33, 32, false) }},
		{"a term that was deleted", "was deleted", func(h *History) { h.Writes[3] = Write{Key: h.Writes[3].Key, Deleted: true} }},
		{"an approval that ended before a clock was set back", "ended without being used: the clock was set back", func(h *History) {
			h.Writes[5] = ends(h.Writes[5], "the clock was set back, so")
			h.Events = append(h.Events, Event{At: at(36), Kind: Fault, What: "clock", SetBack: true})
		}},
		{"an approval that was used although it ended", "ended, and was used", func(h *History) {
			h.Writes[5] = ends(h.Writes[5], "the clock was set back, so")
			h.Events = append(h.Events, Event{At: at(30), Kind: Fault, What: "clock", SetBack: true})
		}},
		{"an approval that ended for other disks than before", "ended without being used: the disks", func(h *History) {
			h.Writes[5] = ends(h.Writes[5], "the disks of the machine are now A, C and were A, B")
		}},
		{"a write of which nobody knows when it was", "nobody knows when", func(h *History) { h.Writes[4].At = time.Time{} }},
		{"nothing goes on after a fault", "nobody changed a machine", func(h *History) {
			h.Events = append(h.Events, Event{At: at(60), Kind: Fault, What: "clock", GoesOn: true})
		}},
		{"a hole in the history", "revisions 6 to 6", func(h *History) { h.Writes = slices.Delete(h.Writes, 4, 5) }},
		{"a status commit that is left out", "leaves out c2", func(h *History) { h.Branch.Parents["c3"] = []string{"c1"} }},
		{"a status branch that was deleted", "its next update began", func(h *History) { h.Branch.Updates[1] = [2]string{"", "c2"} }},
		{"no status", "never written", func(h *History) { h.Branch = Branch{} }},
		{"nobody leads after a fault", "nobody led after the fault", func(h *History) { h.Events[3].At = at(60) }},
		{"nobody acts after a fault", "nobody changed a machine", func(h *History) { h.Calls = h.Calls[:7] }},
		{"nothing happened", "the history is empty", func(h *History) { h.Calls = nil }},
	} {
		h := good()
		c.spoil(&h)
		if c.name != "a hole in the history" {
			h.number()
		}
		if v := Judge(h); !slices.ContainsFunc(v.Broken, func(x string) bool { return strings.Contains(x, c.want) }) {
			t.Errorf("%s: found %q, want %q", c.name, v.Broken, c.want)
		}
	}
}

// ends is the write of a ledger whose second approval a controller ended.
func ends(w Write, why string) Write {
	w.Value = strings.Replace(w.Value, `"opened":"2026-03-01T12:00:34Z"`, `"opened":"2026-03-01T12:00:34Z","ended":"2026-03-01T12:00:35Z","why":"`+why+`"`, 1)
	return w
}

// An approval that was ended because a clock was set back, or the machine has more disks, is not lost: its end is recorded, with the reason.
func TestApprovalThatEndsByARule(t *testing.T) {
	for _, why := range []string{"the clock was set back, so", "the disks of the machine are now A, B, C and were A, B"} {
		h := good()
		h.Calls = slices.DeleteFunc(h.Calls, func(x Call) bool { return x.When.After(at(36)) })
		h.Calls = append(h.Calls, call(36.5, b, "PATCH", "Systems/1", 200))
		h.Events = append(h.Events, Event{At: at(31), Kind: Fault, What: "clock", GoesOn: true, SetBack: true})
		h.Writes[5] = ends(h.Writes[5], why)
		h.Writes[6] = h.Writes[5]
		h.number()
		if v := Judge(h); len(v.Broken) > 0 || v.Ended != 1 || len(v.WentOn) != 1 || v.WentOn[0].Wrote != 4*time.Second {
			t.Errorf("found %q in %+v", v.Broken, v)
		}
	}
}

// A controller continues an installation whose medium was lost with another host: it puts in its
// own. A machine that is shut down with a medium in its drive is not installed by that.
func TestContinuedInstallation(t *testing.T) {
	h := good()
	h.Calls = slices.DeleteFunc(h.Calls, func(x Call) bool { return x.When == at(9) || x.When == at(10) })
	h.Calls = append(h.Calls, call(34.1, b, "POST", shutdown, 204), call(34.2, b, "POST", cut, 204), call(34.3, b, "POST", insert, 204), call(34.5, b, "POST", reset, 204))
	if v := Judge(h); len(v.Broken) > 0 || v.Continued != 1 || v.Installations != 3 {
		t.Errorf("found %q in %+v", v.Broken, v)
	}
}

// A start that had to wait, and has, is as good as one after the session was ended.
func TestStartAfterTheWait(t *testing.T) {
	h := good()
	h.Calls = slices.DeleteFunc(h.Calls, func(x Call) bool { return x.Method == "DELETE" || x.When.After(at(36)) })
	h.Calls = append(h.Calls, call(56.1, b, "POST", insert, 204), call(56.2, b, "POST", reset, 204))
	h.Writes = slices.Delete(h.Writes, 7, 8) // the term was not released
	h.number()
	if v := Judge(h); len(v.Broken) > 0 {
		t.Errorf("found %q", v.Broken)
	}
	h.Writes[3] = leads(1, 11, 15, true) // in order: then there is nothing to wait for
	h.number()
	h.Calls[len(h.Calls)-1].When = at(37)
	h.Calls[len(h.Calls)-2].When = at(36.9)
	if v := Judge(h); len(v.Broken) > 0 {
		t.Errorf("after a term that was ended in order, found %q", v.Broken)
	}
}

// What is saved is read again.
func TestSaveAndRead(t *testing.T) {
	dir := t.TempDir() + "/kept/history"
	if err := good().Save(dir); err != nil {
		t.Fatal(err)
	}
	h, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	if was, is := Judge(good()), Judge(h); fmt.Sprint(was) != fmt.Sprint(is) {
		t.Errorf("judged as %+v, and saved as %+v", was, is)
	}
	if _, err := Read(t.TempDir()); err == nil {
		t.Error("a folder without a history is read")
	}
}
