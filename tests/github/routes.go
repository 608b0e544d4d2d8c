package github

import "slices"

const (
	repoPath    = "/repos/{owner}/{repo}"
	pullPath    = repoPath + "/pulls/{pull_number}"
	commitPath  = repoPath + "/commits/{ref}"
	checkPath   = repoPath + "/check-runs/{check_run_id}"
	commentPath = repoPath + "/issues/comments/{comment_id}"
	hookPath    = repoPath + "/hooks/{hook_id}/deliveries"
	oneHook     = hookPath + "/{delivery_id}"
	appHook     = "/app/hook/deliveries"
)

var (
	metadata   = []string{"metadata:read"}
	contents   = []string{"contents:read"}
	pulls      = []string{"pull_requests:read"}
	setPull    = []string{"pull_requests:write"}
	statuses   = []string{"statuses:read"}
	setStatus  = []string{"statuses:write"}
	checks     = []string{"checks:read"}
	setCheck   = []string{"checks:write"}
	comments   = []string{"issues:read", "pull_requests:read"}
	setComment = []string{"issues:write", "pull_requests:write"}
	setHook    = []string{"repository_hooks:write"}
	mustPush   = "Must have push access to view collaborator permission."
)

// onRepository is a route for those who have a role on the repository of the path. An App or a
// fine-grained token needs one of the permissions.
func onRepository(method, path string, handle func(*call) answer, needs []string, role Role) route {
	return route{method: method, path: path, handle: handle, as: onRepo, needs: needs, role: role}
}

// denies says something else than "Not Found" to a user of a lower role.
func (r route) denies(text string) route { r.denied = text; return r }

// forApps is a route that no user and no token of a user can use.
func (r route) forApps() route { r.appOnly = true; return r }

// routes is what the double serves.
var routes = slices.Concat(generalRoutes, appRoutes, repositoryRoutes, pullRoutes, commitRoutes, commentRoutes)

// generalRoutes belong to no repository.
var generalRoutes = []route{
	{method: "GET", path: "/rate_limit", handle: (*call).rateLimit, free: true},
	{method: "GET", path: "/user", handle: (*call).getUser, as: somebody},
	{method: "GET", path: "/users/{username}", handle: (*call).getUser},
}

// appRoutes are for Apps and their installations.
var appRoutes = []route{
	{method: "GET", path: "/app", handle: (*call).getApp, as: appItself},
	{method: "GET", path: "/app/installations", handle: (*call).listInstallations, as: appItself},
	{method: "GET", path: "/app/installations/{installation_id}", handle: (*call).getInstallation, as: appItself},
	{method: "POST", path: "/app/installations/{installation_id}/access_tokens", handle: (*call).createToken, as: appItself},
	{method: "GET", path: "/orgs/{org}/installation", handle: (*call).accountInstallation, as: appItself},
	{method: "GET", path: "/users/{username}/installation", handle: (*call).accountInstallation, as: appItself},
	{method: "GET", path: appHook, handle: (*call).listDeliveries, as: appItself},
	{method: "GET", path: appHook + "/{delivery_id}", handle: (*call).getDelivery, as: appItself},
	{method: "POST", path: appHook + "/{delivery_id}/attempts", handle: (*call).redeliver, as: appItself},
	{method: "GET", path: "/installation/repositories", handle: (*call).installationRepositories, as: anInstallation},
	{method: "DELETE", path: "/installation/token", handle: (*call).revokeToken, as: anInstallation},
}

// repositoryRoutes are about a repository, its people and its hooks.
var repositoryRoutes = []route{
	onRepository("GET", repoPath, (*call).getRepository, metadata, Read),
	{method: "GET", path: repoPath + "/installation", handle: (*call).repositoryInstallation, as: appItself},
	onRepository("GET", repoPath+"/collaborators/{username}/permission", (*call).getPermission, metadata, Write).denies(mustPush),
	onRepository("GET", repoPath+"/compare/{basehead}", (*call).compare, contents, Read),
	onRepository("GET", hookPath, (*call).listDeliveries, setHook, Admin),
	onRepository("GET", oneHook, (*call).getDelivery, setHook, Admin),
	onRepository("POST", oneHook+"/attempts", (*call).redeliver, setHook, Admin),
}

// pullRoutes are about pull requests.
var pullRoutes = []route{
	onRepository("GET", repoPath+"/pulls", (*call).listPulls, pulls, Read),
	onRepository("POST", repoPath+"/pulls", (*call).createPull, setPull, Write),
	onRepository("GET", pullPath, (*call).getPull, pulls, Read),
	onRepository("GET", pullPath+"/files", (*call).listFiles, pulls, Read),
	onRepository("GET", pullPath+"/commits", (*call).listCommits, pulls, Read),
}

// commitRoutes are about commits, their statuses and check runs.
var commitRoutes = []route{
	onRepository("GET", repoPath+"/commits/{commit_sha}/pulls", (*call).pullsOfCommit, pulls, Read),
	onRepository("GET", commitPath, (*call).getCommit, contents, Read),
	onRepository("POST", repoPath+"/statuses/{sha}", (*call).createStatus, setStatus, Write),
	onRepository("GET", commitPath+"/statuses", (*call).listStatuses, statuses, Read),
	onRepository("GET", commitPath+"/status", (*call).combinedStatus, statuses, Read),
	onRepository("GET", commitPath+"/check-runs", (*call).listChecks, checks, Read),
	onRepository("POST", repoPath+"/check-runs", (*call).createCheck, setCheck, Write).forApps(),
	onRepository("GET", checkPath, (*call).getCheck, checks, Read),
	onRepository("PATCH", checkPath, (*call).updateCheck, setCheck, Write).forApps(),
	onRepository("GET", checkPath+"/annotations", (*call).listAnnotations, checks, Read),
}

// commentRoutes are about comments.
var commentRoutes = []route{
	onRepository("GET", repoPath+"/issues/comments", (*call).listAllComments, comments, Read),
	onRepository("GET", repoPath+"/issues/{issue_number}/comments", (*call).listComments, comments, Read),
	onRepository("GET", repoPath+"/issues/{issue_number}/timeline", (*call).timeline, comments, Read),
	onRepository("POST", repoPath+"/issues/{issue_number}/comments", (*call).createComment, setComment, Read),
	onRepository("GET", commentPath, (*call).getComment, comments, Read),
	onRepository("PATCH", commentPath, (*call).editComment, setComment, Read),
	onRepository("DELETE", commentPath, (*call).deleteComment, setComment, Read),
	onRepository("GET", commentPath+"/reactions", (*call).listReactions, comments, Read),
	onRepository("POST", commentPath+"/reactions", (*call).createReaction, setComment, Read),
	onRepository("DELETE", commentPath+"/reactions/{reaction_id}", (*call).deleteReaction, setComment, Read),
}
