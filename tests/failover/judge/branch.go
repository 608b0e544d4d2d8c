package judge

// checkBranch holds each update of the status branch to what was on it before.
func (c *court) checkBranch() {
	b := c.history.Branch
	last := ""
	for _, u := range b.Updates {
		if u[0] != last {
			c.broken("the status branch was at %q, and its next update began at %q", last, u[0])
		}
		if u[0] != "" && !b.has(u[1], u[0]) {
			c.broken("the status branch went to %s, which leaves out %s", u[1], u[0])
		}
		last = u[1]
	}
	c.verdict.StatusCommits = len(b.Updates)
	if last == "" {
		c.broken("the status branch was never written")
	}
}

// has reports whether a commit has another one among its ancestors.
func (b Branch) has(commit, ancestor string) bool {
	seen, next := map[string]bool{}, []string{commit}
	for len(next) > 0 {
		at := next[len(next)-1]
		next = next[:len(next)-1]
		if at == ancestor {
			return true
		}
		if !seen[at] {
			seen[at] = true
			next = append(next, b.Parents[at]...)
		}
	}
	return false
}
