//! Knots of a graph: strongly connected components without an edge to the outside.

const UNSEEN: usize = usize::MAX;

/// Returns the sets of at least two nodes, or of one with an edge to itself, in which every node leads to every other and none
/// leads out. `edges` has the successors of each node. Each set is sorted; only the edges decide the order of the sets.
///
/// Tarjan's algorithm, with an explicit stack in place of recursion, because a queue of thousands is a path of thousands.
/// Takes time proportional to nodes and edges.
pub(super) fn find_knots(edges: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let mut search = Search {
        edges,
        number: vec![UNSEEN; edges.len()],
        lowest: vec![UNSEEN; edges.len()],
        open: Vec::new(),
        set: vec![UNSEEN; edges.len()],
        sets: 0,
    };
    let mut numbers = 0;
    let mut knots = Vec::new();
    for root in 0..edges.len() {
        search.explore(root, &mut numbers, &mut knots);
    }
    knots
}

struct Search<'a> {
    edges: &'a [Vec<usize>],
    /// The order in which nodes were visited.
    number: Vec<usize>,
    /// The lowest number of a node that is not yet in a set and that this one leads to.
    lowest: Vec<usize>,
    /// The nodes that are not yet in a set.
    open: Vec<usize>,
    /// The set of each node.
    set: Vec<usize>,
    sets: usize,
}

impl Search<'_> {
    fn explore(&mut self, root: usize, numbers: &mut usize, knots: &mut Vec<Vec<usize>>) {
        let mut path = Vec::new();
        if self.number[root] == UNSEEN {
            path.push((root, 0));
        }
        while let Some((node, edge)) = path.last_mut() {
            let node = *node;
            if *edge == 0 {
                self.number[node] = *numbers;
                self.lowest[node] = *numbers;
                *numbers += 1;
                self.open.push(node);
            }
            if let Some(&next) = self.edges[node].get(*edge) {
                *edge += 1;
                if self.number[next] == UNSEEN {
                    path.push((next, 0));
                } else if self.set[next] == UNSEEN {
                    self.lowest[node] = self.lowest[node].min(self.number[next]);
                }
                continue;
            }
            path.pop();
            if let Some((before, _)) = path.last() {
                self.lowest[*before] = self.lowest[*before].min(self.lowest[node]);
            }
            if self.lowest[node] == self.number[node] {
                knots.extend(self.close(node));
            }
        }
    }

    /// Makes a set of the open nodes from this one on, and returns it if it is a knot.
    fn close(&mut self, first: usize) -> Option<Vec<usize>> {
        let start = self.open.iter().rposition(|node| *node == first)?;
        let mut members = self.open.split_off(start);
        for node in &members {
            self.set[*node] = self.sets;
        }
        self.sets += 1;
        let leads_out = |node: &usize| {
            let mut edges = self.edges[*node].iter();
            edges.any(|next| self.set[*next] != self.set[first])
        };
        let leads_nowhere = self.edges[first].is_empty();
        if leads_nowhere || members.iter().any(leads_out) {
            return None;
        }
        members.sort_unstable();
        Some(members)
    }
}

#[cfg(test)]
mod tests {
    use super::find_knots;

    #[test]
    fn a_long_path_needs_no_stack() {
        let nodes = 200_000;
        let ring: Vec<_> = (0..nodes).map(|node| vec![(node + 1) % nodes]).collect();
        assert_eq!(find_knots(&ring).len(), 1);
        assert_eq!(find_knots(&ring)[0].len(), nodes);
    }
}
