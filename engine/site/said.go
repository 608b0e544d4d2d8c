package site

import "time"

// Said is a line of what an agent in a machine's memory has said.
type Said struct {
	// Seq is larger in each line that is said later.
	Seq  uint64    `json:"seq"`
	When time.Time `json:"when"`
	Text string    `json:"text"`
}
