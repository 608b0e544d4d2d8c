package item

import "fmt"

// Found is what a facet of a system has that a design could ask for, whoever made it.
type Found struct {
	// Items are as a design would ask for them, with their bodies. They hold no
	// secret.
	Items []Item `json:"items,omitempty"`
	// Left is what is there and no item can say.
	Left []Left `json:"left,omitempty"`
}

// Left is one thing that no item says, and why.
type Left struct {
	What string `json:"what"` // an item's key, a file, or a few words
	Why  string `json:"why"`
}

// Leave notes what no item says.
func (f *Found) Leave(what, why string, args ...any) {
	f.Left = append(f.Left, Left{what, fmt.Sprintf(why, args...)})
}
