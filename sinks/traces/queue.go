package traces

import (
	"sync"

	"github.com/slipway-gitops/slipway/engine/site"
)

// These are the bounds of what waits to be sent, and of one request.
const (
	maxWaiting      = 16384    // spans
	maxWaitingBytes = 16 << 20 // about, in memory
	maxBatch        = 512      // at most 2 MB, see maxText
)

// queue holds the parts of work that wait to be sent as spans, oldest first, and counts what became of others. It takes
// them as they are: the engine has its lock meanwhile.
type queue struct {
	mu                     sync.Mutex
	parts                  []*site.TracePart
	bytes                  int
	sent, refused, dropped int64
}

// sizeOf is about how many bytes a part takes in memory.
func sizeOf(p *site.TracePart) int {
	const fixed = 512
	return fixed + len(p.Revision.ID) + len(p.Revision.Subject) + len(p.Node) + len(p.Why) + len(p.Gate) + len(p.Release)
}

// add adds a part. Where there is no room, the oldest ones make it.
func (q *queue) add(s *site.TracePart) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.parts = append(q.parts, s)
	q.bytes += sizeOf(s)
	q.makeRoomLocked()
}

func (q *queue) makeRoomLocked() {
	for len(q.parts) > maxWaiting || q.bytes > maxWaitingBytes {
		q.popLocked()
		q.dropped++
	}
}

func (q *queue) popLocked() *site.TracePart {
	s := q.parts[0]
	q.parts[0] = nil // the array outlives it
	q.parts = q.parts[1:]
	q.bytes -= sizeOf(s)
	return s
}

// take removes the oldest parts, as many as one request may have.
func (q *queue) take() (batch []*site.TracePart) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.parts) > 0 && len(batch) < maxBatch {
		batch = append(batch, q.popLocked())
	}
	return batch
}

// putBack returns parts that were not sent, as far as there is room.
func (q *queue) putBack(batch []*site.TracePart) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.parts = append(batch, q.parts...)
	for _, s := range batch {
		q.bytes += sizeOf(s)
	}
	q.makeRoomLocked()
}

// settled counts spans that the collector has decided on.
func (q *queue) settled(sent, refused int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.sent += int64(sent)
	q.refused += int64(refused)
}

func (q *queue) numbers() Numbers {
	q.mu.Lock()
	defer q.mu.Unlock()
	return Numbers{Sent: q.sent, Refused: q.refused, Dropped: q.dropped, Waiting: len(q.parts)}
}
