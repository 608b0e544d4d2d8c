package item

import "fmt"

// Found is what a facet of a system has that a design could ask for, whoever made it.
type Found struct {
	// Items are in the form of a design's items, with their bodies. They
	// contain no secret.
	Items []Item `json:"items,omitempty"`
	// Left is what exists and no item can express.
	Left []Left `json:"left,omitempty"`
}

// Left is one thing that no item can express, and why.
type Left struct {
	What string `json:"what"` // an item's key, a file, or a few words
	Why  string `json:"why"`
}

// Leave notes what no item can express.
func (f *Found) Leave(what, why string, args ...any) {
	f.Left = append(f.Left, Left{what, fmt.Sprintf(why, args...)})
}
