package control

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/slipway-gitops/slipway/engine/access"
	"github.com/slipway-gitops/slipway/engine/site"
)

// mostAsked is how many sites a client asks at the same time.
const mostAsked = 4

// Sites are the names of the sites that the daemon manages.
func (c *Client) Sites(ctx context.Context) ([]string, error) {
	var names []string
	_, err := c.get(ctx, "/sites", "", &names)
	return names, err
}

// EachSite calls ask for each site of the daemon, for some of them at the same time, with its place among the names.
func (c *Client) EachSite(names []string, ask func(i int, siteName string)) {
	free := make(chan struct{}, mostAsked)
	var asking sync.WaitGroup
	for i, name := range names {
		free <- struct{}{}
		asking.Go(func() {
			defer func() { <-free }()
			ask(i, name)
		})
	}
	asking.Wait()
}

// SiteOf is the site of a node: the one that is named or, of a daemon that manages several, the only one that has a node of
// that name. It is empty for the daemon's only site.
func (c *Client) SiteOf(ctx context.Context, siteName, node string) (string, error) {
	if siteName != "" || node == "" {
		return siteName, nil
	}
	names, err := c.Sites(ctx)
	if err != nil || len(names) < 2 {
		return "", err
	}
	errs := make([]error, len(names))
	c.EachSite(names, func(i int, name string) {
		var d NodeDetail
		_, errs[i] = c.get(ctx, ofNodePath(name, node, ""), "", &d)
	})
	var have []string
	var unknown error
	for i, err := range errs {
		switch {
		case err == nil:
			have = append(have, names[i])
		case errors.Is(err, site.ErrNotFound), errors.Is(err, access.ErrDenied): // the caller can do nothing there
		default:
			unknown = fmt.Errorf("%w: whether site %s has a node %s is not known: %w", ErrWhichSite, names[i], node, err)
		}
	}
	switch {
	case len(have) > 1:
		return "", fmt.Errorf("%w: several have a node %s: %s", ErrWhichSite, node, strings.Join(have, ", "))
	case unknown != nil:
		return "", unknown
	case len(have) == 0:
		return "", fmt.Errorf("%w: none of the sites %s has a node %s that you may see", site.ErrNotFound, strings.Join(names, ", "), node)
	}
	return have[0], nil
}

// atNode does something about a node. Where no site is named and the daemon needs one, it is the one of the node.
func (c *Client) atNode(ctx context.Context, siteName, node string, do func(siteName string) error) error {
	err := do(siteName)
	if siteName != "" || node == "" || !errors.Is(err, ErrWhichSite) {
		return err
	}
	if siteName, err = c.SiteOf(ctx, "", node); err != nil {
		return err
	}
	return do(siteName)
}

// ofNode asks for something of a node.
func (c *Client) ofNode(ctx context.Context, siteName, node, what string, into any) error {
	return c.atNode(ctx, siteName, node, func(siteName string) error {
		_, err := c.get(ctx, ofNodePath(siteName, node, what), "", into)
		return err
	})
}
