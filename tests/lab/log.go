package lab

import (
	"fmt"
	"strconv"
	"time"
)

// maxLog is how many entries a machine's log keeps.
const maxLog = 64

// logged is an entry of the machine's event log.
type logged struct {
	n              int
	at             time.Time
	severity, text string
}

// Log writes an entry into the machine's event log; the severity is OK,
// Warning or Critical.
func (m *Machine) Log(severity, text string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.logLocked(severity, text)
}

// logLocked writes an entry, in the place of the oldest when the log is full.
func (m *Machine) logLocked(severity, text string) {
	n := 1
	if len(m.log) > 0 {
		n = m.log[len(m.log)-1].n + 1
	}
	e := logged{n, time.Now(), severity, text}
	m.log = append(m.log, e)
	if len(m.subscriptions) > 0 {
		m.tellLocked(m.eventOf(e))
	}
	if len(m.log) > maxLog {
		m.log = append([]logged(nil), m.log[len(m.log)-maxLog:]...)
	}
}

// logIDs are the ids of the entries, newest first.
func (m *Machine) logIDs() []string {
	return locked(m, func() (ids []string) {
		for i := len(m.log) - 1; i >= 0; i-- {
			ids = append(ids, strconv.Itoa(m.log[i].n))
		}
		return ids
	})
}

func (p *personality) logEntry(m *Machine, h logHabit, id, at string) body {
	return locked(m, func() body {
		for _, e := range m.log {
			if strconv.Itoa(e.n) != id {
				continue
			}
			kind := map[string]string{"SEL": "SEL", "Event": "Event"}[h.kind]
			b := p.thing("LogEntry", at, "Log Entry "+id, body{
				"EntryType": or(kind, "Oem"), "Severity": e.severity, "Message": e.text, "Created": e.at.UTC().Format(time.RFC3339),
			})
			if kind == "SEL" {
				b["SensorType"], b["EntryCode"], b["MessageId"] = "System Event", "Assert", fmt.Sprintf("%08x", e.n)
			}
			if kind == "" {
				b["OemRecordFormat"] = "Lab"
			}
			return b
		}
		return nil
	})
}

// liveLog has the entries themselves in their collection, as its schema wants
// (DSP0268, LogEntryCollection: OData.AutoExpand).
func (m *Machine) liveLog(at string, b body) {
	entries := []any{}
	for _, id := range m.logIDs() {
		if e := m.resource(at + "/" + id); e != nil {
			entries = append(entries, e)
		}
	}
	b["Members"], b["Members@odata.count"] = entries, len(entries)
}

// clearLog is the action LogService.ClearLog.
func (x *exchange) clearLog(string) {
	if _, ok := x.read(); !ok {
		return
	}
	if !x.lies() {
		locked(x.Machine, func() any { x.log = nil; return nil })
	}
	x.done()
}
