package site

// Proposal is an open request to merge a change into the branch that a site
// follows: a pull request, a merge request. Title and Author are as others
// wrote them.
type Proposal struct {
	// Number names it on the forge.
	Number int    `json:"number"`
	Title  string `json:"title,omitempty"`
	// Author is the login of who opened it.
	Author string `json:"author,omitempty"`
	// URL is its page, for people.
	URL string `json:"url,omitempty"`
	// Base is the branch that it is to be merged into, Head the commit that is
	// to be merged.
	Base string `json:"base"`
	Head string `json:"head"`
	// Fork says that Head comes from another repository, where people may push
	// who may not push here.
	Fork bool `json:"fork,omitempty"`
	// Allowed is the head of a fork that somebody with the right to write
	// allowed to be planned; it allows no other.
	Allowed string `json:"allowed,omitempty"`
	Draft   bool   `json:"draft,omitempty"`
}

// MayPlan says whether the proposal's head may be read and evaluated.
func (p Proposal) MayPlan() bool { return p.Head != "" && (!p.Fork || p.Allowed == p.Head) }

// Merged is a proposal that was merged, as the forge tells it.
type Merged struct {
	Number int `json:"number"`
	// Head is the commit of the proposal that was merged, Commit what the
	// branch was at right after.
	Head   string `json:"head"`
	Commit string `json:"commit"`
	// By is the login of who merged it.
	By string `json:"by"`
}
