// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

// Package command supervises the one command that an agent was given: it
// starts it, forwards signals to it, ends it, and says how it ended. When the
// agent is process 1 of its PID namespace it also reaps orphans.
//
// # What Run promises
//
// The command leads a process group of its own; stdin is /dev/null. When Run
// returns, every process of that group has ended or was sent SIGKILL: a group
// whose leader ended by itself at once, one that is asked to end (the context)
// after a SIGTERM and the grace, which goes on for members that outlive the
// leader (a member counts until its parent has waited for it). Processes that
// left the group (setsid) are not followed; inside a PID namespace they end with
// its process 1.
//
// Signals are forwarded to the leader alone.
//
// Where the agent is not process 1, the kernel kills the command if the agent
// dies (PR_SET_PDEATHSIG). That is bound to the thread which forked, so Run
// keeps its goroutine on one thread until the command has ended.
//
// # Who waits for children
//
// Linux hands the exit status of a child to whoever waits first. A reaper that
// waits for any child would therefore steal it from the one that waits for its
// own. Here exactly one party waits:
//
//   - Without a Reaper, Run waits for its own child alone (wait4 of that pid).
//   - With a Reaper, the Reaper alone waits, for any child, and hands the status
//     of a command to the Run that registered it. Fork and registration happen
//     under the lock that a sweep of waits holds, so a status cannot be
//     collected between the two; signals are sent under the same lock, so none
//     reaches a recycled pid.
//
// A process that runs a Reaper must start all its children through this
// package: exec.Cmd.Wait and os.Process.Wait elsewhere in the process would
// fail with ECHILD. The Reaper must run until every Run that uses it has
// returned.
package command
