//! The cases of `host.rs`.

/// A layout of a kernel, and the rows it is tested with.
pub struct Case {
    pub name: &'static str,
    pub back: bool,
    /// 0: f32. 2: bf16.
    pub element: usize,
    /// Threads of a warp that share a row. With fewer than 32, the kernels that hold rows in registers.
    pub team: usize,
    pub warps: usize,
    /// Blocks per team.
    pub cluster: usize,
    /// Teams per block.
    pub teams: usize,
    pub ring: usize,
    pub pieces: usize,
    pub n: usize,
    pub rows: usize,
    pub centered: bool,
    pub affine: bool,
    /// Whether the blocks of a team exchange messages; otherwise they form a cluster.
    pub across: bool,
    pub kind: Kind,
}

/// Which kernels are tested.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Stream,
    /// Rows in registers, without sums for γ and β.
    Held {
        keep: bool,
    },
    /// The same with vectors of four elements.
    Four,
    /// One thread per row.
    Each,
    /// One thread per lane of the sum; `warps` is eight per 1024 elements.
    Lanes,
    /// Only the sums for γ and β: columns per thread, chunks per warp.
    Down {
        wide: usize,
        each: usize,
    },
    /// The same with one chunk per block, and its maximum number of rows.
    Chunk {
        wide: usize,
        height: usize,
    },
}

const BASE: Case = Case {
    name: "",
    back: false,
    element: 0,
    team: 32,
    warps: 2,
    cluster: 1,
    teams: 1,
    ring: 3,
    pieces: 1,
    n: 2048,
    rows: 13,
    centered: true,
    affine: true,
    across: false,
    kind: Kind::Stream,
};
const LANES: Case = Case { kind: Kind::Lanes, warps: 8, n: 1024, ..BASE };

const EACH: Case = Case { kind: Kind::Each, team: 1, warps: 1, ring: 2, rows: 700, ..BASE };

const SHORT: Case = Case { kind: Kind::Held { keep: false }, warps: 1, ring: 0, rows: 75, ..BASE };

pub const CASES: [Case; 54] = [
    Case { name: "forward_in_a_cluster", cluster: 4, teams: 2, ring: 1, n: 8192, ..BASE },
    Case { name: "forward_in_a_cluster_of_three", cluster: 3, teams: 2, ring: 1, n: 5700, ..BASE },
    Case { name: "forward_in_a_cluster_of_five", element: 2, warps: 1, cluster: 5, teams: 2, ring: 2, n: 5120, ..BASE },
    Case {
        name: "backward_across_three",
        back: true,
        cluster: 3,
        across: true,
        n: 5700,
        ring: 2,
        rows: 64 * 5 + 7,
        ..BASE
    },
    Case {
        name: "backward_bf16_across_five",
        back: true,
        element: 2,
        cluster: 5,
        across: true,
        n: 9304,
        ring: 2,
        rows: 64 * 5 + 7,
        ..BASE
    },
    Case { name: "forward_two_teams_of_ten", element: 2, warps: 10, teams: 2, ring: 2, n: 10200, ..BASE },
    Case {
        name: "backward_bf16_seven_and_a_part",
        back: true,
        element: 2,
        warps: 3,
        ring: 4,
        n: 3000,
        rows: 70,
        ..BASE
    },
    Case { name: "forward_in_pieces", warps: 4, cluster: 2, ring: 5, pieces: 4, n: 7000, ..BASE },
    Case { name: "forward_bf16_five_warps", element: 2, warps: 5, teams: 2, ring: 2, n: 5000, ..BASE },
    Case {
        name: "forward_rms",
        element: 2,
        cluster: 2,
        teams: 3,
        ring: 3,
        pieces: 2,
        n: 3800,
        centered: false,
        ..BASE
    },
    Case { name: "forward_a_warp_a_row", warps: 1, teams: 2, n: 768, rows: 30, ..BASE },
    Case {
        name: "forward_a_warp_a_row_odd_vectors",
        element: 2,
        warps: 1,
        teams: 2,
        ring: 2,
        n: 640,
        rows: 30,
        ..BASE
    },
    Case {
        name: "backward_a_warp_a_chunk_odd_vectors",
        back: true,
        warps: 1,
        teams: 2,
        ring: 2,
        n: 640,
        rows: 200,
        ..BASE
    },
    Case {
        name: "backward_half_of_a_vector",
        back: true,
        element: 2,
        warps: 1,
        teams: 2,
        ring: 2,
        n: 320,
        rows: 200,
        ..BASE
    },
    Case { name: "forward_a_part_of_a_vector", teams: 2, ring: 1, n: 1032, ..BASE },
    Case { name: "forward_whole_warps_and_none", cluster: 4, ring: 1, n: 5 * 1024, ..BASE },
    Case { name: "backward_whole_warps_and_none", back: true, cluster: 4, across: true, n: 5 * 1024, rows: 70, ..BASE },
    Case { name: "forward_half_of_a_warp", element: 2, teams: 2, ring: 2, n: 1536, ..BASE },
    Case { name: "forward_warps_without_elements", cluster: 4, teams: 2, ring: 1, n: 5 * 1024 + 256, ..BASE },
    Case { name: "backward_part_of_a_warp", back: true, element: 2, warps: 3, n: 2048 + 384, rows: 70, ..BASE },
    Case {
        name: "backward_warps_without_elements",
        back: true,
        cluster: 4,
        across: true,
        n: 5 * 1024 + 128,
        rows: 64 * 5 + 7,
        ..BASE
    },
    Case { name: "forward_in_fours", kind: Kind::Four, element: 2, team: 16, n: 384, ..SHORT },
    Case { name: "forward_in_fours_below_256", kind: Kind::Four, element: 2, team: 8, n: 192, ..SHORT },
    Case { name: "backward", back: true, rows: 70, ..BASE },
    Case {
        name: "backward_in_several_blocks",
        across: true,
        back: true,
        element: 2,
        cluster: 4,
        ring: 5,
        pieces: 2,
        n: 8000,
        rows: 200,
        ..BASE
    },
    Case {
        name: "backward_rms",
        back: true,
        element: 2,
        warps: 3,
        ring: 9,
        pieces: 4,
        n: 3000,
        rows: 66,
        centered: false,
        ..BASE
    },
    Case { name: "backward_chunks_in_turn", back: true, cluster: 2, n: 4096, rows: 64 * 5 + 7, across: true, ..BASE },
    Case { name: "backward_in_a_cluster", back: true, cluster: 2, n: 4096, rows: 64 * 5 + 7, ..BASE },
    Case {
        name: "backward_in_a_cluster_bf16",
        back: true,
        element: 2,
        warps: 4,
        cluster: 4,
        ring: 5,
        pieces: 2,
        n: 15000,
        rows: 150,
        ..BASE
    },
    Case { name: "forward_a_thread_a_row", ring: 3, n: 64, ..EACH },
    Case { name: "forward_a_thread_a_row_bf16", element: 2, n: 64, ..EACH },
    Case { name: "forward_a_thread_a_row_of_64_bytes", element: 2, n: 32, rows: 1000, affine: false, ..EACH },
    Case { name: "forward_a_thread_a_row_rms", element: 2, n: 128, ring: 4, centered: false, ..EACH },
    Case {
        name: "backward_a_warp_a_chunk",
        back: true,
        warps: 1,
        teams: 2,
        ring: 2,
        n: 1000,
        rows: 200,
        affine: false,
        ..BASE
    },
    Case { name: "forward_short_bf16", element: 2, team: 2, n: 64, ..SHORT },
    Case { name: "forward_short", team: 16, n: 252, ring: 2, ..SHORT },
    Case { name: "backward_short_bf16", back: true, element: 2, team: 8, n: 256, ring: 2, rows: 300, ..SHORT },
    Case { name: "backward_short", back: true, team: 4, n: 60, rows: 500, ..SHORT },
    Case {
        name: "forward_held_in_a_cluster",
        kind: Kind::Held { keep: true },
        ring: 0,
        warps: 4,
        cluster: 2,
        n: 7000,
        ..BASE
    },
    Case { name: "forward_held", kind: Kind::Held { keep: false }, element: 2, ring: 0, warps: 3, n: 3000, ..BASE },
    Case {
        name: "backward_held_in_a_cluster",
        back: true,
        kind: Kind::Held { keep: false },
        element: 2,
        ring: 0,
        cluster: 4,
        n: 8192,
        ..BASE
    },
    Case { name: "backward_held", back: true, kind: Kind::Held { keep: true }, ring: 10, n: 2000, ..BASE },
    Case { name: "forward_few_rows", ..LANES },
    Case { name: "forward_few_rows_bf16", element: 2, warps: 24, n: 2500, affine: false, ..LANES },
    Case { name: "forward_few_rows_rms", warps: 16, n: 1300, centered: false, ..LANES },
    Case { name: "backward_few_rows", back: true, ..LANES },
    Case { name: "backward_few_rows_bf16", back: true, element: 2, warps: 24, n: 2500, ..LANES },
    Case { name: "backward_few_rows_rms", back: true, warps: 32, n: 4096, centered: false, affine: false, ..LANES },
    Case { name: "down_a_chunk", kind: Kind::Down { wide: 1, each: 1 }, warps: 1, n: 70, rows: 61, ..BASE },
    Case {
        name: "down_in_clusters",
        kind: Kind::Down { wide: 4, each: 1 },
        warps: 2,
        cluster: 4,
        n: 132,
        rows: 500,
        ..BASE
    },
    Case {
        name: "down_many_chunks",
        kind: Kind::Down { wide: 8, each: 4 },
        element: 2,
        warps: 2,
        cluster: 2,
        n: 264,
        rows: 1000,
        ..BASE
    },
    Case {
        name: "down_rms",
        kind: Kind::Down { wide: 2, each: 8 },
        element: 2,
        warps: 1,
        n: 50,
        rows: 450,
        centered: false,
        ..BASE
    },
    Case { name: "down_few_rows", kind: Kind::Chunk { wide: 1, height: 16 }, warps: 8, n: 70, rows: 13, ..BASE },
    Case {
        name: "down_few_chunks",
        kind: Kind::Chunk { wide: 2, height: 64 },
        element: 2,
        warps: 8,
        cluster: 8,
        n: 100,
        rows: 400,
        ..BASE
    },
];
