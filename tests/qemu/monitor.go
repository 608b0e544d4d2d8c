package qemu

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// Monitor is a connection to QEMU's monitor in QMP ("QEMU Machine Protocol Specification").
type Monitor struct {
	conn  net.Conn
	hear  func(Event)
	ended chan struct{} // closed when nothing more is said

	mu      sync.Mutex
	last    int
	waiting map[int]chan answer
}

// Event is something that happened to a computer.
type Event struct {
	Name string `json:"event"`
	Data struct {
		Reason string `json:"reason"`
	} `json:"data"`
}

// answer is what comes of one command.
type answer struct {
	Return json.RawMessage `json:"return"`
	Error  *struct {
		Class string `json:"class"`
		Desc  string `json:"desc"`
	} `json:"error"`
}

// ErrEnded is asking a computer that is off.
var ErrEnded = errors.New("QEMU has ended")

func newMonitor(conn net.Conn, hear func(Event)) *Monitor {
	m := &Monitor{conn: conn, hear: hear, ended: make(chan struct{}), waiting: map[int]chan answer{}}
	go m.read()
	return m
}

// read gives answers to those who wait for them, and events to hear, up to the end.
func (m *Monitor) read() {
	defer close(m.ended)
	for d := json.NewDecoder(m.conn); ; {
		var said struct {
			ID *int `json:"id"`
			answer
			Event
		}
		if err := d.Decode(&said); err != nil {
			return
		}
		if said.Event.Name != "" {
			m.hear(said.Event)
		}
		if said.ID == nil {
			continue
		}
		m.mu.Lock()
		to := m.waiting[*said.ID]
		delete(m.waiting, *said.ID)
		m.mu.Unlock()
		if to != nil {
			to <- said.answer
		}
	}
}

// Do carries out a command, with arguments that JSON can have or nil, and reads what comes of
// it into a value, which may be nil.
func (m *Monitor) Do(command string, arguments, into any) error {
	m.mu.Lock()
	m.last++
	id, came := m.last, make(chan answer, 1)
	m.waiting[id] = came
	text, err := json.Marshal(struct {
		Execute   string `json:"execute"`
		Arguments any    `json:"arguments,omitempty"`
		ID        int    `json:"id"`
	}{command, arguments, id})
	if err == nil {
		_ = m.conn.SetWriteDeadline(time.Now().Add(patience)) // a connection of the kernel's has them
		_, err = m.conn.Write(append(text, '\n'))
	}
	m.mu.Unlock()
	if err != nil {
		return fmt.Errorf("QMP %s: %w", command, errors.Join(ErrEnded, err))
	}
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case a := <-came:
		if a.Error != nil {
			return fmt.Errorf("QMP %s: %s: %s", command, a.Error.Class, a.Error.Desc)
		}
		if into == nil {
			return nil
		}
		return json.Unmarshal(a.Return, into)
	case <-m.ended:
		return fmt.Errorf("QMP %s: %w", command, ErrEnded)
	case <-late.C:
		return fmt.Errorf("QMP %s: no answer in %s", command, patience)
	}
}
