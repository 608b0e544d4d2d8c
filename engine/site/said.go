package site

import "time"

// Said is one line of output from an agent in a machine's memory.
type Said struct {
	// Seq increases with each line.
	Seq  uint64    `json:"seq"`
	When time.Time `json:"when"`
	Text string    `json:"text"`
}
